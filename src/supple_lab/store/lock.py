"""Takeover: a run whose holder may be dead, but not so that this machine could tell at once, is watched for a while."""

import errno
import json
import os
import platform
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from supple_lab.files import StorageError, age_by_the_disk, is_locked, machine, open_part, storage_error

SECONDS_BETWEEN_LOOKS = 1.0


def await_silent_holder(folder: Path, *, tell: Callable[[str], None]) -> None:
    """Wait while a holder elsewhere is silent, and free the run of one that is dead. Says what it waits for.

    It returns at once where there is nothing to wait for, and as soon as the holder shows life: then the run is busy.
    """
    watch = LeaseWatch(folder)
    if watch.seen is None or standing(watch.seen) != "unknown":
        return
    tell(
        f"run {folder.name} is held by a process of another machine, or of this one before it was restarted "
        f"({watch.seen.who}); it is taken over in {SECONDS_TO_DEATH:.0f} s unless that process shows life."
    )
    while not watch.broke() and not watch.has_changed:
        time.sleep(SECONDS_BETWEEN_LOOKS)


SECONDS_BETWEEN_BEATS = 5.0
SECONDS_TO_DEATH = 60.0  # 12 beats; as long as an NFS client may go on believing an old attribute (acregmax)
NOBODY = b"{}\n"
NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)

Standing = Literal["free", "held", "unknown"]  # unknown: held from another machine, which may be dead or alive


class RunIsBusy(Exception):
    """Another process is at work on this run."""


@dataclass(frozen=True)
class Seen:
    """A lease as others see it. Equal sights some time apart mean that it does not beat."""

    path: Path
    number: int
    content: bytes

    @property
    def is_broken(self) -> bool:
        """Whether it stands for nobody, put up only to end the one below it."""
        return self.content == NOBODY

    @property
    def holder(self) -> dict[str, object]:
        """Host, machine and process of the holder, as far as the file can be read."""
        try:
            holder = json.loads(self.content.split(b"\n")[0])
        except (ValueError, RecursionError):
            return {}
        return holder if isinstance(holder, dict) else {}

    @property
    def who(self) -> str:
        """The holder in words."""
        return f"{self.holder.get('host', '?')}, process {self.holder.get('pid', '?')}"


class Lease:
    """The right to write one run's folder, kept by beating from a thread of its own."""

    def __init__(self, folder: Path, number: int, *, file: int, content: bytes) -> None:
        self._folder = folder
        self._number = number
        self._file = file
        self._content = content
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep_beating, daemon=True, name="lease")
        self._thread.start()

    def check(self) -> None:
        """Raise RunIsBusy where another took the run over: this process must write nothing more to it."""
        if not self._is_own():
            raise RunIsBusy(f"run {self._folder.name} was taken over by another process; this one wrote no further.")

    def release(self) -> None:
        """Let go, and remove the lease with the dead ones below it.

        Nobody's lease stays above them, so that numbers never begin again: whoever still means to take over a dead
        lease that it saw before would otherwise find that number free.
        """
        self._ended.set()
        self._thread.join()
        if self._is_own():
            with suppress(StorageError):  # a full disk: then a folder without leases is free
                put_lease(self._folder, self._number + 1, holder={})
            for seen in leases(self._folder):
                if seen.number <= self._number:
                    seen.path.unlink(missing_ok=True)
        elif self._has_file():
            lease_path(self._folder, self._number).unlink(missing_ok=True)
        os.close(self._file)

    def _is_own(self) -> bool:
        highest = max((seen_number for seen_number, _ in numbered(self._folder)), default=0)
        return self._has_file() and highest == self._number

    def _has_file(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._file), lease_path(self._folder, self._number).stat())
        except OSError:  # removed, or a stale handle
            return False

    def _keep_beating(self) -> None:
        beats = 0
        while not self._ended.wait(SECONDS_BETWEEN_BEATS):
            beats += 1
            with suppress(OSError):  # a disk that is away for a moment: a later beat will do
                os.pwrite(self._file, self._content + f"{beats}\n".encode(), 0)


class LeaseWatch:
    """Watches the lease of a run that another holds, and knows when the holder is dead."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._first = self._seen = newest(folder)
        self._since = time.monotonic()

    @property
    def seen(self) -> Seen | None:
        """The lease at the last look."""
        return self._seen

    @property
    def has_changed(self) -> bool:
        """Whether the lease was seen to beat, or to become another's, since the watch began."""
        return self._seen != self._first

    def broke(self) -> bool:
        """Whether the run is free; a lease that has not beaten for long enough is broken on the way."""
        seen = newest(self._folder)
        if seen != self._seen:
            self._seen, self._since = seen, time.monotonic()
        if seen is None or standing(seen) == "free":
            return True
        if time.monotonic() - self._since < SECONDS_TO_DEATH:
            return False
        put_lease(self._folder, seen.number + 1, holder={})
        return True


def acquire(folder: Path) -> Lease:
    """Hold the run, or RunIsBusy. Never waits."""
    seen = newest(folder)
    if seen is not None and standing(seen) != "free":
        raise RunIsBusy(f"run {folder.name} is being worked on by another process ({seen.who}).")
    number = 1 if seen is None else seen.number + 1
    holder = {"host": platform.node(), "machine": machine(), "pid": os.getpid(), "token": secrets.token_hex(8)}
    lease = put_lease(folder, number, holder=holder)
    if lease is not None and not lease._is_own():  # somebody came and went since we looked
        lease.release()
        lease = None
    if lease is None:
        raise RunIsBusy(f"run {folder.name} is being worked on by another process, which came first.")
    return lease


def put_lease(folder: Path, number: int, *, holder: dict[str, object]) -> Lease | None:
    """Put up the lease of that number, or None where another was first. One without a holder frees the run."""
    path, content = lease_path(folder, number), json.dumps(holder).encode() + b"\n"
    try:
        beside, file = open_part(path)  # locked before others can see it
    except OSError as error:
        raise storage_error(error, path) from error
    try:
        os.pwrite(file, content, 0)
        _link(beside, path)
    except FileExistsError:
        os.close(file)
        return None
    except OSError as error:
        os.close(file)
        raise storage_error(error, path) from error
    finally:
        beside.unlink(missing_ok=True)
    if holder:
        return Lease(folder, number, file=file, content=content)
    os.close(file)
    return None


def _link(beside: Path, path: Path) -> None:
    try:
        os.link(beside, path)
    except OSError as error:
        if error.errno not in NO_HARD_LINKS:
            raise
        if path.exists():  # a disk without hard links: the best there is
            raise FileExistsError(path) from error
        os.rename(beside, path)


def leases(folder: Path) -> list[Seen]:
    """All lease files, the lowest number first."""
    found = []
    for number, path in numbered(folder):
        with suppress(OSError):
            found.append(Seen(path, number, path.read_bytes()))
    return found


def numbered(folder: Path) -> list[tuple[int, Path]]:
    """The numbers of all lease files and where they are, the lowest first."""
    found = []
    for path in folder.glob("lease-*"):
        with suppress(ValueError):
            found.append((int(path.name.removeprefix("lease-")), path))
    return sorted(found)


def newest(folder: Path) -> Seen | None:
    """The lease that counts, if there is any."""
    return next(reversed(leases(folder)), None)


def standing(seen: Seen) -> Standing:
    """Whether the run may be taken, by what this machine can tell at once."""
    if seen.is_broken:
        return "free"
    locked = _is_locked(seen.path)
    if locked is None:
        return "unknown"
    if locked:
        return "held"
    return "free" if seen.holder.get("machine") == machine() else "unknown"


def is_live(folder: Path) -> bool:
    """Whether somebody seems to be at work on the run; for onlookers, who cannot wait for a beat.

    Of a holder on another machine they see the age of its last beat by the clock of the disk, which dates both files.
    """
    seen = newest(folder)
    if seen is None:
        return False
    now = standing(seen)
    return now == "held" or (now == "unknown" and age_by_the_disk(seen.path) < SECONDS_TO_DEATH)


def lease_path(folder: Path, number: int) -> Path:
    """Where the lease of that number is."""
    return folder / f"lease-{number:06d}"


def _is_locked(path: Path) -> bool | None:
    try:
        with open(path, "rb") as file:
            return is_locked(file.fileno())
    except FileNotFoundError:  # let go this very moment
        return False
    except OSError:
        return None
