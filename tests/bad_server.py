"""A real HTTP server on this machine that behaves as badly as it is told to."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Behaviour:
    """How one path is answered, and what was asked of it."""

    content: bytes
    status: int = 200
    with_range: bool = True  # whether Range is obeyed
    break_off_after: int | None = None  # bytes of each answer, after which the connection is cut
    silent_after: int | None = None  # bytes of each answer, after which nothing comes and the connection stays
    claimed_length: int | None = None  # what Content-Length says instead of the truth
    wrong_start: int | None = None  # where Content-Range says the answer begins
    asked: list[str] = field(default_factory=list)  # the Range of each request


class BadServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, Behaviour] = {}
        self.ended = threading.Event()

    def serve(self, path: str, content: bytes, **how) -> Behaviour:
        """Put something at a path."""
        self.files[path] = Behaviour(content, **how)
        return self.files[path]

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"


class Handler(BaseHTTPRequestHandler):
    server: BadServer

    def do_GET(self) -> None:
        how = self.server.files.get(self.path)
        if how is None:
            self.send_error(404)
            return
        asked = self.headers.get("Range", "")
        how.asked.append(asked)
        found = re.fullmatch(r"bytes=(\d+)-", asked) if how.with_range else None
        start = int(found[1]) if found else 0
        if found and start >= len(how.content):
            self.send_error(416)
            return
        self.answer(how, start, partial=bool(found))

    def answer(self, how: Behaviour, start: int, *, partial: bool) -> None:
        body = how.content[start:]
        self.send_response(206 if partial else how.status)
        if partial:
            said = start if how.wrong_start is None else how.wrong_start
            self.send_header("Content-Range", f"bytes {said}-{len(how.content) - 1}/{len(how.content)}")
        length = len(body) if how.claimed_length is None else how.claimed_length
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body[: how.break_off_after][: how.silent_after])
        if how.silent_after is not None:
            self.wfile.flush()
            self.server.ended.wait()
        self.close_connection = True

    def log_message(self, *_) -> None:
        pass


@contextmanager
def bad_server() -> Iterator[BadServer]:
    with BadServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.ended.set()
            server.shutdown()
            thread.join()
