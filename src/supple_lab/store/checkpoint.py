"""Checkpoints: all that the next step depends on, in one file that says whose it is, read without executing code."""

import io
from pathlib import Path
from typing import Any

import torch

from supple_lab.files import Check, WrongContent, read_sealed, unchecked, write_sealed

KIND = "checkpoint"
NUM_KEPT = 2  # the last one, and the one before in case the last turns out damaged


class UnusableCheckpoint(Exception):
    """A whole checkpoint of this run that it cannot go on from."""


def write_checkpoint(folder: Path, content: dict[str, Any], *, check: Check = unchecked) -> None:
    """Add a checkpoint to the run's folder and remove all but the last two."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    serial = max((serial_of(path) for path in checkpoint_files(folder)), default=0) + 1
    with buffer.getbuffer() as payload:  # let go of even if writing fails: Python 3.13 complains if both end in a cycle
        write_sealed(folder / f"checkpoint-{serial:06d}.pt", payload, kind=KIND, run=folder.name, check=check)
    for old in checkpoint_files(folder)[:-NUM_KEPT]:
        old.unlink(missing_ok=True)


def read_checkpoint(path: Path, device: torch.device) -> dict[str, Any]:
    """The content that was written, on the device, or WrongContent.

    A disk that refuses (StorageError) or a device without the memory says nothing about the file.
    """
    buffer = io.BytesIO(read_sealed(path, kind=KIND, run=path.parent.name))
    try:
        content = torch.load(buffer, map_location=device, weights_only=True)
    except (torch.OutOfMemoryError, MemoryError):
        raise
    except Exception as error:  # whatever unpickling a strange file raises
        if device.type != "cpu":
            read_checkpoint(path, torch.device("cpu"))
            raise  # the file is as it should be, and the device is not
        raise WrongContent(f"cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise WrongContent("is no checkpoint.")
    return content


def checkpoint_files(folder: Path) -> list[Path]:
    """The folder's checkpoints, oldest first."""
    return sorted(folder.glob("checkpoint-[0-9][0-9][0-9][0-9][0-9][0-9].pt"), key=serial_of)


def serial_of(path: Path) -> int:
    return int(path.stem.removeprefix("checkpoint-"))
