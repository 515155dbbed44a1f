"""Files that are either whole or not there: written beside, flushed to the disk, then renamed.

What is written beside is a part. Its writer keeps it locked, and its name says on which machine, so that parts of
writers that were killed can be told from those of living ones, and removed.
"""

import errno
import fcntl
import hashlib
import os
import platform
import re
import secrets
from contextlib import suppress
from functools import cache
from pathlib import Path

from supple_lab.errors import UserError

CHOOSE_FOLDER = "Choose a folder you may write to with --out DIR."
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
PART = re.compile(r"\..+\.([0-9a-f]{8})\.[0-9a-f]{8}\.part")
SECONDS_TO_DEATH = (
    3600.0  # of a writer on another machine: whether it lives cannot be seen, and no write takes this long
)


class StorageError(UserError):
    """The disk refused; the message says what was being written and what to do."""


def atomic_write(path: Path, content: bytes | memoryview) -> None:
    """Replace the file by the content in one step: a reader, or a kill at any moment, sees the old or the new whole."""
    try:
        beside, number = open_part(path)
        try:
            with open(number, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(number)
                os.replace(beside, path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise storage_error(error, path) from error


def open_part(path: Path) -> tuple[Path, int]:
    """A new file beside that path and its descriptor, locked for as long as that is open."""
    while True:
        beside = path.with_name(f".{path.name}.{_mark_of_machine()}.{secrets.token_hex(4)}.part")
        number = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        if _lock(number) and beside.exists():
            return beside, number
        os.close(number)  # taken for a dead one's between the two calls: whoever did so removes it


def _lock(number: int) -> bool:
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a disk without flock, where nobody can tell dead from living
        return True
    return True


def remove_dead_parts(folder: Path) -> None:
    """Remove the parts in a folder whose writers were killed; those that may be alive keep theirs."""
    with suppress(OSError):  # no such folder, or one that may only be read
        for name in os.listdir(folder):
            if found := PART.fullmatch(name):
                _remove_if_dead(folder / name, is_ours=found[1] == _mark_of_machine())


def _remove_if_dead(path: Path, *, is_ours: bool) -> None:
    with suppress(FileNotFoundError), open(path, "rb") as file:
        locked = is_locked(file.fileno())
        if (locked is False and is_ours) or (not locked and age_by_the_disk(path) > SECONDS_TO_DEATH):
            path.unlink(missing_ok=True)  # still locked by us: a writer that lives after all is not let have it


def is_locked(number: int) -> bool | None:
    """Whether another has locked the open file; otherwise it is locked now. None where the disk does not tell."""
    try:
        fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


def age_by_the_disk(path: Path) -> float:
    """Seconds since the file was written, by the clock of the disk, which dates both; 0 where it cannot be asked."""
    try:
        probe, number = open_part(path.with_name("clock"))
        try:
            return os.fstat(number).st_mtime - path.stat().st_mtime
        finally:
            probe.unlink(missing_ok=True)
            os.close(number)
    except OSError:  # a disk that may not be written
        return 0.0


@cache
def machine() -> str:
    """This boot of this machine: a flock is known to all its processes, in whatever container, and ends with them."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return platform.node()


@cache
def _mark_of_machine() -> str:
    return hashlib.sha256(machine().encode()).hexdigest()[:8]


def unreadable(error: OSError, path: Path) -> StorageError:
    """That a file which is there could not be read this time; it is left as it is."""
    return StorageError(f"cannot read {path}: {error.strerror}. It was left as it is; the same command tries again.")


def storage_error(error: OSError, path: Path) -> StorageError:
    """What the operating system said, in a sentence that says what is lost (nothing) and what to do."""
    if error.errno in DISK_FULL:
        return StorageError(
            f"no space left to write {path}. Nothing already written is lost: free some space, and the same command "
            "continues from the last checkpoint."
        )
    return StorageError(f"cannot write {path}: {error.strerror}. {CHOOSE_FOLDER}")
