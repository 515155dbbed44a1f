"""Lock: one process at a time writes a run's folder.

A flock on RUN/lock ends with its process. Besides, the holder counts in the file every few seconds: a lock that stands
still for a minute, by the waiter's own clock, is broken. That is all there is on a disk without flock.
"""

import json
import os
import platform
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from supple_lab.files import WrongContent, open_regular, set_aside, unreadable, writing
from supple_lab.flock import flock

NAME = "lock"
SECONDS_BETWEEN_BEATS = 5.0
SECONDS_TO_DEATH = 60.0  # 12 beats; as long as an NFS client may go on believing an old attribute (acregmax)
SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_TO_TRY = 0.2  # other readers hold a lock for an instant

Standing = Literal["free", "held", "unknown", "wrong"]  # unknown: the disk has no flock; wrong: no regular file


class RunIsBusy(Exception):
    """Another process is at work on this run."""


class RunLock:
    """Exclusive lock on a run folder, refreshed by a thread."""

    def __init__(self, path: Path, number: int) -> None:
        self._path = path
        self._number = number
        holder = {"host": platform.node(), "pid": os.getpid(), "token": secrets.token_hex(8)}
        self._content = json.dumps(holder).encode() + b"\n"
        os.ftruncate(number, 0)
        _overwrite(number, self._content)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep_beating, daemon=True, name="lock")
        self._thread.start()

    @classmethod
    def acquire(cls, folder: Path) -> "RunLock":
        """Take the run, or raise RunIsBusy."""
        path, until = folder / NAME, time.monotonic() + SECONDS_TO_TRY
        if standing(folder) == "wrong" or path.is_symlink():
            set_aside(path)
        with writing(path):
            while True:
                number, is_new = _open(path)
                if _is_taken(path, number, is_new=is_new):
                    break
                os.close(number)
                if time.monotonic() > until:
                    raise RunIsBusy(f"run {folder.name} is being worked on by another process ({holder_of(folder)}).")
                time.sleep(SECONDS_TO_TRY / 20)
            try:
                return cls(path, number)
            except OSError:
                os.close(number)
                path.unlink(missing_ok=True)
                raise

    def check(self) -> None:
        """Raise RunIsBusy if the lock is another's: this process must write nothing more to the run."""
        if _content(self._path).split(b"\n")[0] != self._content.rstrip():
            raise RunIsBusy(
                f"run {self._path.parent.name} was taken over by another process; this one wrote no further."
            )

    def release(self) -> None:
        """Let go, and remove the file if it is still ours."""
        self._ended.set()
        self._thread.join()
        with suppress(Exception):  # another's now, or a disk that is away: then closing has to do
            self.check()
            self._path.unlink()
        os.close(self._number)

    def _keep_beating(self) -> None:
        beats = 0
        while not self._ended.wait(SECONDS_BETWEEN_BEATS):
            beats += 1
            with suppress(OSError):  # a disk that is away for a moment: a later beat will do
                _overwrite(self._number, self._content + f"{beats}\n".encode())


class LockWatch:
    """Watches the lock of a run that another process holds, and breaks it once that process is dead."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._first = self._seen = _content(folder / NAME)
        self._since = time.monotonic()

    @property
    def has_changed(self) -> bool:
        """Whether the holder was seen to beat, or another came, since the watch began."""
        return self._seen != self._first

    def broke(self) -> bool:
        """Whether the run is free; a lock that stood still for long enough is broken on the way."""
        path = self._folder / NAME
        if standing(self._folder) in ("free", "wrong"):
            return True
        if (seen := _content(path)) != self._seen:
            self._seen, self._since = seen, time.monotonic()
        if time.monotonic() - self._since < SECONDS_TO_DEATH:
            return False
        with writing(path):
            path.unlink(missing_ok=True)  # its holder, should it wake up, finds that out before it writes
        return True


def await_silent_holder(folder: Path, *, show: Callable[[str], None]) -> None:
    """On a disk without flock, wait until the run is free or its holder is seen to beat."""
    if standing(folder) != "unknown":
        return
    watch = LockWatch(folder)
    show(
        f"run {folder.name} is held by another process, dead or alive ({holder_of(folder)}); it is taken over in "
        f"{SECONDS_TO_DEATH:.0f} s unless that process shows life."
    )
    while not watch.broke() and not watch.has_changed:
        time.sleep(SECONDS_BETWEEN_LOOKS)


def standing(folder: Path) -> Standing:
    """Whether the run may be taken, as far as this machine knows at once."""
    try:
        number = open_regular(folder / NAME)
    except WrongContent:
        return "wrong"
    if number is None:
        return "free"
    try:
        flock(number, shared=True)
        return "free"
    except BlockingIOError:
        return "held"
    except OSError:
        return "unknown"
    finally:
        os.close(number)


def is_held(folder: Path) -> bool:
    """Whether a process seems to be at work on the run; without flock, by the age of its last beat."""
    now = standing(folder)
    try:
        age = time.time() - (folder / NAME).stat().st_mtime if now == "unknown" else 0.0
    except OSError:
        return False
    return now in ("held", "unknown") and age < SECONDS_TO_DEATH


def holder_of(folder: Path) -> str:
    """The holder in words, as far as the file can be read."""
    try:
        holder = json.loads(_content(folder / NAME).split(b"\n")[0])
        return f"{holder['host']}, process {holder['pid']}"
    except (ValueError, TypeError, KeyError, RecursionError):
        return "?, process ?"


def _open(path: Path) -> tuple[int, bool]:
    while True:
        with suppress(FileExistsError):
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666), True
        with suppress(FileNotFoundError):  # let go this very moment
            return os.open(path, os.O_RDWR), False


def _is_taken(path: Path, number: int, *, is_new: bool) -> bool:
    try:
        flock(number)
    except BlockingIOError:
        return False
    except OSError:  # a disk without flock: the lock is whose file it is
        return is_new
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(number), path.stat())
    return False  # let go between the two calls, with its file


def _overwrite(number: int, content: bytes) -> None:
    os.lseek(number, 0, os.SEEK_SET)  # pwrite would do both, but not on Windows, where this module is imported too
    os.write(number, content)


def _content(path: Path) -> bytes:
    try:
        number = open_regular(path)
        if number is None:
            return b""
        with open(number, "rb", buffering=0) as file:
            return file.read(1000)
    except WrongContent:
        return b""
    except OSError as error:
        raise unreadable(error, path) from error
