"""Processes forked after the imports: they are there at once, where others would import torch for seconds."""

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from supple_lab.codec import decode
from supple_lab.sweep import local
from supple_lab.sweep.executor import Job
from supple_lab.sweep.remote import worker

SECONDS_TO_HANG = 120.0  # on a machine where a whole run takes one


class ForkedWorker:
    """A worker process as subprocess.Popen would start it."""

    def __init__(self, command: Sequence[str], *, stderr: Any, env: dict[str, str], **_: Any) -> None:
        (inside, to_it), (from_it, outside) = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                for number, place in ((inside, 0), (outside, 1), (stderr.fileno(), 2)):
                    os.dup2(number, place)
                os.closerange(3, 1024)
                os.environ.update(env)
                use_own_streams_()
                worker.main(decode(Job, json.loads(command[-1])))
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(1)
        os.close(inside)
        os.close(outside)
        self.stdin, self.stdout = os.fdopen(to_it, "w"), os.fdopen(from_it)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._wait(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int:
        until = None if timeout is None else time.monotonic() + timeout
        while (code := self._wait(os.WNOHANG)) is None:
            if until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired("worker", timeout or 0.0)
            time.sleep(0.002)
        return code

    def _wait(self, how: int) -> int | None:
        if self.returncode is None:
            with suppress(ChildProcessError):  # another thread was first, and says so in a moment
                pid, status = os.waitpid(self.pid, how)
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def terminate(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)


SUBPROCESS = SimpleNamespace(**vars(subprocess) | {"Popen": ForkedWorker})


def use_own_streams_() -> None:
    """Rather than those of the process that forked, which pytest may have replaced."""
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, "w" if n else "r", closefd=False) for n in range(3))


def forked(work: Callable[[], object], log: Path) -> int:
    """The id of a process that does the work, and writes what it says to the log; its workers are forked, too."""
    pid = os.fork()
    if pid:
        return pid
    code = 3
    try:
        number = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.dup2(number, 1)
        os.dup2(number, 2)
        use_own_streams_()
        local.subprocess = SUBPROCESS  # type: ignore[assignment]
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def ended(pid: int) -> int:
    """The exit code of the process, or minus its signal; one that hangs is killed, and said."""
    until = time.monotonic() + SECONDS_TO_HANG
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError("it hung")
