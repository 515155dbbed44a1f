"""Checkpoints: all that the next step depends on, in one checksummed file, read without executing code."""

import hashlib
import io
import pickle
from pathlib import Path
from typing import Any

import torch

from supple_lab.files import atomic_write, unreadable

MAGIC = b"supple checkpoint 1\n"
NUM_KEPT = 2  # the last one, and the one before in case the last turns out damaged
NUM_DIGEST_BYTES = hashlib.sha256().digest_size


class DamagedCheckpoint(Exception):
    """The file is not what was written: cut short, altered, or not a checkpoint."""


def write_checkpoint(folder: Path, content: dict[str, Any]) -> None:
    """Add a checkpoint to the folder and remove all but the last two."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    payload = buffer.getbuffer()
    serial = max((serial_of(path) for path in checkpoint_files(folder)), default=0) + 1
    digest = hashlib.sha256(payload).digest()
    atomic_write(folder / f"checkpoint-{serial:06d}.pt", b"".join((MAGIC, digest, payload)))
    for old in checkpoint_files(folder)[:-NUM_KEPT]:
        old.unlink(missing_ok=True)


def read_checkpoint(path: Path, device: torch.device) -> dict[str, Any]:
    """The content that was written, on the device, or DamagedCheckpoint.

    A disk that refuses (StorageError) or a device without the memory says nothing about the file.
    """
    try:
        data = path.read_bytes()
    except IsADirectoryError as error:
        raise DamagedCheckpoint(f"{path} is a folder, not a checkpoint.") from error
    except OSError as error:
        raise unreadable(error, path) from error
    header, payload = data[: len(MAGIC) + NUM_DIGEST_BYTES], data[len(MAGIC) + NUM_DIGEST_BYTES :]
    if header != MAGIC + hashlib.sha256(payload).digest():
        raise DamagedCheckpoint(f"{path} is damaged (its checksum does not match).")
    try:
        return torch.load(io.BytesIO(payload), map_location=device, weights_only=True)
    except (pickle.UnpicklingError, EOFError) as error:
        raise DamagedCheckpoint(f"{path} cannot be read: {error}") from error


def checkpoint_files(folder: Path) -> list[Path]:
    """The folder's checkpoints, oldest first."""
    return sorted(folder.glob("checkpoint-[0-9][0-9][0-9][0-9][0-9][0-9].pt"), key=serial_of)


def serial_of(path: Path) -> int:
    """The number in a checkpoint's name."""
    return int(path.stem.removeprefix("checkpoint-"))
