"""Files that are either whole or not there, and files that say whose they are.

A whole file is written beside, flushed to the disk, then renamed. What is written beside is a part.
"""

import errno
import hashlib
import itertools
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from supple_lab.errors import UserError

CHOOSE_FOLDER = "Choose a folder you may write to with --out DIR."
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NO_FILE = (errno.ELOOP, errno.ENXIO, errno.ENOTDIR)  # a link to itself, a socket, a file in place of the folder
PART = re.compile(r"\..+\.[0-9a-f]{8}\.part")
SECONDS_TO_DEATH = 3600.0  # of a part that several may write: no write takes this long
READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # of POSIX, of Windows
SUFFIX = ".damaged"
MAX_HEADER = 200  # bytes of a sealed file's first line

Check = Callable[[], None]  # raises if this process may no longer write


class StorageError(UserError):
    """The disk refused; the message says what was being written and what to do."""


class DiskFull(StorageError):
    """No space is left: nothing is wrong with what was asked, so a command ends with exit code 1."""


class WrongContent(Exception):
    """A file is not what was written there; the message says how."""


def unchecked() -> None:
    pass


def atomic_write(path: Path, content: bytes | memoryview, *, check: Check = unchecked) -> None:
    """Replace the file in one step: a reader, or a kill at any moment, sees the old or the new whole.

    The check, which may raise, comes last: what a process that takes the folder over removes is then not renamed.
    """
    with writing(path):
        beside, number = open_part(path)
        try:
            with open(number, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(number)
            check()
            os.replace(beside, path)
        except OSError:
            check()  # what is written beside may be gone because another process is at work here now
            raise
        finally:
            beside.unlink(missing_ok=True)


def open_part(path: Path) -> tuple[Path, int]:
    """A new file beside that path, and its descriptor."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    return beside, os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)


def remove_parts(folder: Path, *, older_than: float = SECONDS_TO_DEATH) -> None:
    """Remove what killed writers left. With age 0 only for the one process that writes into the folder."""
    with suppress(OSError):  # no such folder, or one that may only be read
        for name in filter(PART.fullmatch, os.listdir(folder)):
            if time.time() - os.lstat(folder / name).st_mtime >= older_than:
                (folder / name).unlink(missing_ok=True)


def read_regular(path: Path | str, *, limit: int) -> bytes | None:
    """The file; None if there is none; WrongContent if it is no regular file or larger than any that we write."""
    if (number := open_regular(path)) is None:
        return None
    try:
        size = os.fstat(number).st_size
        if size > limit:
            raise WrongContent(f"has {size:,} bytes, more than any that a run writes.")
        return os.read(number, size)
    except OSError as error:
        raise unreadable(error, path) from error
    finally:
        os.close(number)


def open_regular(path: Path | str) -> int | None:
    """Descriptor of a regular file; never waits, whatever lies there."""
    try:
        number = os.open(path, READ)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in NO_FILE:
            raise WrongContent("cannot be read: it is no regular file.") from error
        raise unreadable(error, path) from error
    if stat.S_ISREG(os.fstat(number).st_mode):
        return number
    os.close(number)
    raise WrongContent("cannot be read: it is no regular file.")


def set_aside(path: Path) -> None:
    """Rename a wrong file, if it is there, to *.damaged, a name that people find."""
    if not os.path.lexists(path):
        return
    names = (f"{path.name}{SUFFIX}" + (f".{number}" if number else "") for number in itertools.count())
    with writing(path):
        path.rename(next(path.with_name(name) for name in names if not os.path.lexists(path.with_name(name))))


def write_sealed(path: Path, payload: bytes | memoryview, *, kind: str, run: str, check: Check = unchecked) -> None:
    """Write a file whose first line says what it is, whose, how long, and its SHA-256."""
    atomic_write(path, b"".join((_header(payload, kind=kind, run=run), payload)), check=check)


def read_sealed(path: Path, *, kind: str, run: str) -> bytearray:
    """The payload that was written for that run, or WrongContent."""
    number = open_regular(path)
    if number is None:
        raise WrongContent("is missing.")
    with open(number, "rb") as file:
        try:
            header = file.readline(MAX_HEADER)
            words = header.decode("ascii", "replace").split()
            size = os.fstat(number).st_size - len(header)
            if words[:4] != ["supple", kind, "2", run] or words[4:5] != [str(size)]:
                raise WrongContent("is cut short, another run's, or of another version of supple.")
            payload = bytearray(size)
            file.readinto(payload)
        except OSError as error:
            raise unreadable(error, path) from error
    if header != _header(payload, kind=kind, run=run):
        raise WrongContent("is damaged (its checksum does not match).")
    return payload


def _header(payload: bytes | bytearray | memoryview, *, kind: str, run: str) -> bytes:
    return f"supple {kind} 2 {run} {len(payload)} {hashlib.sha256(payload).hexdigest()}\n".encode()


def unreadable(error: OSError, path: Path | str) -> StorageError:
    """That a file which is there could not be read this time; it is left as it is."""
    return StorageError(f"cannot read {path}: {error.strerror}. It was left as it is; the same command tries again.")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Around what changes a file: if the operating system refuses, a StorageError says so."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, path) from error


def storage_error(error: OSError, path: Path) -> StorageError:
    """What the operating system said, in a sentence that says what is lost (nothing) and what to do."""
    if error.errno in DISK_FULL:
        return DiskFull(
            f"no space left to write {path}. Nothing already written is lost: free some space, and give the same "
            "command again."
        )
    return StorageError(f"cannot write {path}: {error.strerror}. {CHOOSE_FOLDER}")
