"""Mirror: whole files of runs copied to an fsspec URL, for machines without a shared disk.

Object stores can neither append nor rename, so runs work in a local folder and their files are copied whole: logs
before the checkpoint that stands on them, the status last. A machine that has less of a run fetches the copy.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]

from supple_lab.files import StorageError, atomic_write
from supple_lab.store.checkpoint import checkpoint_files

RECORDS, STATUS, CHECKPOINT = "records.jsonl", "status.json", "checkpoint-"
FIRST = ("spec.json", RECORDS, "epochs.jsonl")  # what is copied before the checkpoints, and they before the status

Amount = tuple[bool, int, int, bool]


class Mirror:
    """The runs under one URL, laid out as in the store: runs/ID/FILE."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            self._disk, self._root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise StorageError(f"cannot use {url} as a mirror: {error}") from error

    def push(self, folder: Path) -> None:
        """Copy the run's files out, and remove the checkpoints there that are no longer here."""
        checkpoints = [path.name for path in checkpoint_files(folder)]
        with self._refusals_named("copy to", folder):
            self._disk.makedirs(self._path(folder, ""), exist_ok=True)
            for name in (*FIRST, *checkpoints, STATUS):
                if (folder / name).exists():
                    self._disk.pipe_file(self._path(folder, name), (folder / name).read_bytes())
            for name in self._names(folder):
                if name.startswith(CHECKPOINT) and name not in checkpoints:
                    self._disk.rm_file(self._path(folder, name))

    def pull(self, folder: Path) -> bool:
        """Bring the run's files here if there is more of the run there; whether there was."""
        with self._refusals_named("read", folder):
            names = self._names(folder)
            if self._amount(folder, names) <= local_amount(folder):
                return False
            for name in sorted(names, key=lambda name: (name == STATUS, name.startswith(CHECKPOINT))):
                atomic_write(folder / name, self._disk.cat_file(self._path(folder, name)))
            return True

    def lacks(self, folder: Path) -> bool:
        """Whether there is more of the run here than there."""
        with self._refusals_named("read", folder):
            return local_amount(folder) > self._amount(folder, self._names(folder))

    @contextmanager
    def _refusals_named(self, what: str, folder: Path) -> Iterator[None]:
        try:
            yield
        except StorageError:  # of the disk here
            raise
        except Exception as error:  # of each file system's own kind: botocore's have no base but this
            path = self._path(folder, "")
            raise StorageError(
                f"cannot {what} {path}: {error}. What is on this machine is whole; the same command goes on."
            ) from error

    def _names(self, folder: Path) -> list[str]:
        self._disk.invalidate_cache()
        try:
            paths: Iterable[Any] = self._disk.ls(self._path(folder, ""), detail=False)
        except FileNotFoundError:
            return []
        names = [str(path).rstrip("/").rpartition("/")[2] for path in paths]
        return [name for name in names if name in (*FIRST, STATUS) or name.startswith(CHECKPOINT)]

    def _amount(self, folder: Path, names: list[str]) -> Amount:
        status = self._disk.cat_file(self._path(folder, STATUS)) if STATUS in names else b""
        size = self._disk.size(self._path(folder, RECORDS)) if RECORDS in names else 0
        return amount(status, names, int(size))

    def _path(self, folder: Path, name: str) -> str:
        return "/".join((self._root.rstrip("/"), "runs", folder.name, name)).rstrip("/")


def amount(status: bytes, names: Iterable[str], num_record_bytes: int) -> Amount:
    """How much of a run there is: ended or not, the newest checkpoint, the records. Comparing needs no clock."""
    states = {name: f'"state": "{name}"'.encode() in status for name in ("done", "diverged", "failed")}
    serials = [int(digits) for name in names if (digits := name.removeprefix(CHECKPOINT).removesuffix(".pt")).isdigit()]
    return states["done"] or states["diverged"], max(serials, default=0), num_record_bytes, states["failed"]


def local_amount(folder: Path) -> Amount:
    status, records = folder / STATUS, folder / RECORDS
    names = [path.name for path in checkpoint_files(folder)]
    content = status.read_bytes() if status.exists() else b""
    return amount(content, names, records.stat().st_size if records.exists() else 0)
