"""A small client of Chromium's DevTools protocol, over a pipe: no port, no package."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from select import select

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAX_SECONDS = 120  # of silence, after which it counts as hung
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--remote-debugging-pipe", "--disable-background-networking", "--disable-component-update"),
    *("--disable-extensions", "--hide-scrollbars", "--force-color-profile=srgb"),
)
# Chromium reads commands from descriptor 3 and writes answers to 4. The copies keep one from overwriting the other.
SHIM = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD_CLOEXEC, 10) for end in sys.argv[1:3]]
for number, end in enumerate(ends, start=3):
    os.dup2(end, number)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One tab. What the page says, asks for and throws is kept in lists."""

    def __init__(self, write_to, read_from):
        self._write_to, self._read_from = write_to, read_from
        self._rest, self._number, self._session = b"", 0, None
        self._events = []
        self.requests, self.complaints = [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Fetch.enable", patterns=[{"urlPattern": "*"}])

    def call(self, method, **parameters):
        """Send a command and wait for its answer; keep what happens meanwhile."""
        self._number += 1
        number = self._send(method, parameters)
        while True:
            message = self._receive()
            if message.get("id") == number:
                assert "error" not in message, message["error"]
                return message["result"]
            self._keep(message)

    def _send(self, method, parameters):
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write_to, json.dumps(message).encode() + b"\0")
        return self._number

    def _receive(self):
        while b"\0" not in self._rest:
            assert select([self._read_from], [], [], MAX_SECONDS)[0], f"the browser said nothing for {MAX_SECONDS} s"
            part = os.read(self._read_from, 1 << 20)
            assert part, "the browser has gone"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _keep(self, message):
        method, what = message.get("method"), message.get("params", {})
        self._events.append(method)
        if method == "Fetch.requestPaused":
            self._number += 1
            self._answer(what)
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(what["exceptionDetails"]["exception"].get("description", "exception"))
        elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(what["args"]))
        elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            self.complaints.append(what["entry"]["text"])

    def _answer(self, paused):
        """Files of this machine may be read; anything else is noted and refused."""
        url = paused["request"]["url"]
        self.requests.append(url)
        if url.startswith(("file:", "data:", "about:")):
            self._send("Fetch.continueRequest", {"requestId": paused["requestId"]})
        else:
            self._send("Fetch.failRequest", {"requestId": paused["requestId"], "errorReason": "BlockedByClient"})

    def open(self, url, *, width=1280, height=900, dark=False):
        """Load a page in a window of that size, and forget what was before."""
        self.requests, self.complaints, self._events = [], [], []
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="", features=[theme])
        self.call("Page.navigate", url=url)
        while "Page.loadEventFired" not in self._events:
            self._keep(self._receive())

    def ask(self, expression):
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def move(self, selector, *, right=0.5, down=0.5, kind="mouseMoved", **more):
        """Put the pointer over an element, at these shares of its box, scrolled into view."""
        box = f"document.querySelector({json.dumps(selector)})"
        self.ask(f"{box}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        place = f"(b => [b.x + {right} * b.width, b.y + {down} * b.height])({box}.getBoundingClientRect())"
        x, y = self.ask(place)
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, selector):
        """Press and release the left button over an element."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.move(selector, kind=kind, button="left", clickCount=1)


@contextmanager
def browser():
    """A headless Chromium with an empty profile, ended at the end."""
    to_read, to_write = os.pipe(), os.pipe()  # what it reads from us, what it writes to us
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = (str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", "about:blank")
        process = subprocess.Popen(
            (sys.executable, "-c", SHIM, str(to_read[0]), str(to_write[1]), *command),
            pass_fds=(to_read[0], to_write[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_read[0])
        os.close(to_write[1])
        try:
            yield Browser(to_read[1], to_write[0])
        finally:
            os.close(to_read[1])
            os.close(to_write[0])
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
