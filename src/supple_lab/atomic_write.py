"""Files that are either whole or not there: written beside, flushed to the disk, then renamed."""

import errno
import os
import secrets
from pathlib import Path

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class StorageError(Exception):
    """The disk refused; the message says what was being written and what to do."""


def atomic_write(path: Path, content: bytes | memoryview) -> None:
    """Replace the file by the content in one step: a reader, or a kill at any moment, sees the old or the new whole."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")  # containers on one disk may share their pids
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise storage_error(error, path) from error


def storage_error(error: OSError, path: Path) -> StorageError:
    """What the operating system said, in a sentence that says what is lost (nothing) and what to do."""
    if error.errno in DISK_FULL:
        return StorageError(
            f"no space left to write {path}. Nothing already written is lost: free some space, and the same command "
            "continues from the last checkpoint."
        )
    return StorageError(f"cannot write {path}: {error.strerror}. Choose a folder you may write to with --out DIR.")
