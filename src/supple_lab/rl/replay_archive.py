"""Replay archive: a replay on disk, written piece by piece, each piece once: a checkpoint costs only what is new."""

import io
import zlib
from pathlib import Path

import numpy as np

from supple_lab.files import WrongContent, read_sealed, write_sealed
from supple_lab.rl.replay import Columns, Replay

KIND = "replay"
FRAMES_PER_FILE = 16_384  # 110 MiB of 84x84 frames: what a file needs of memory while it is written or read
COMPRESSION = 1


class ReplayArchive:
    """The replay's part of a run's checkpoints. Save between episodes: then what is written never changes again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.num_saved = 0
        self._num_saved_before = 0

    def save(self, replay: Replay) -> None:
        """Drop files that the last two saves do not need, then write the frames added since the last."""
        for path in pieces(self.folder):
            if span(path)[1] <= self._num_saved_before - replay.capacity:
                path.unlink(missing_ok=True)
        for first in range(max(self.num_saved, replay.oldest), replay.num_added, FRAMES_PER_FILE):
            last = min(first + FRAMES_PER_FILE, replay.num_added)
            buffer = io.BytesIO()
            np.savez(buffer, allow_pickle=False, **replay.read(first, last))
            payload, path = zlib.compress(buffer.getbuffer(), COMPRESSION), piece_path(self.folder, first, last)
            write_sealed(path, payload, kind=KIND, run=self.folder.name)
        self._num_saved_before, self.num_saved = self.num_saved, replay.num_added

    def restore_(self, replay: Replay, num_added: int) -> None:
        """Fill a new replay with what a save left when so many frames had been added; forget what came later."""
        replay.num_added = reached = max(0, num_added - replay.capacity)
        for path in pieces(self.folder):
            first, last = span(path)
            if first >= num_added:
                path.unlink(missing_ok=True)
            elif last > reached and first <= reached and last <= num_added:
                content = read_piece(path)
                replay.append({name: column[reached - first :] for name, column in content.items()})
                reached = last
        if reached != num_added:
            raise WrongContent(f"{self.folder} lacks frames {reached} to {num_added} of the replay.")
        self.num_saved = self._num_saved_before = num_added

    def clear(self) -> None:
        """Remove all files: the run is over, or starts over."""
        for path in pieces(self.folder):
            path.unlink(missing_ok=True)
        self.num_saved = self._num_saved_before = 0


def pieces(folder: Path) -> list[Path]:
    """The files of the replay in the folder, oldest first."""
    return sorted(folder.glob("replay-*-*.frames"), key=span)


def piece_path(folder: Path, first: int, last: int) -> Path:
    """The file for the times from first up to, not including, last."""
    return folder / f"replay-{first:09d}-{last:09d}.frames"


def span(path: Path) -> tuple[int, int]:
    """The times that a file's name promises."""
    _, first, last = path.stem.split("-")
    return int(first), int(last)


def read_piece(path: Path) -> Columns:
    """The columns that were written, or WrongContent; a disk that refuses (StorageError) damages nothing."""
    try:
        payload = read_sealed(path, kind=KIND, run=path.parent.name)
    except WrongContent as error:
        raise WrongContent(f"{path} {error}") from error
    with np.load(io.BytesIO(zlib.decompress(payload)), allow_pickle=False) as columns:
        return dict(columns)
