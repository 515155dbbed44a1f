"""Store: an output folder with a folder per run. It is the truth; everything else is made from it."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from supple_lab.files import CHOOSE_FOLDER, StorageError, atomic_write, remove_dead_parts, storage_error
from supple_lab.spec import RunSpec
from supple_lab.store.mirror import Mirror
from supple_lab.store.run_folder import RunFolder

FORMAT = 1


class Store:
    """The runs under one output folder; with a mirror, their files are copied to an fsspec URL as well."""

    def __init__(self, root: Path, mirror: Mirror | None = None) -> None:
        self.root = root
        self.mirror = mirror

    @classmethod
    def create(cls, root: Path, *, mirror: str | None = None) -> "Store":
        """Open the folder for writing, making it if need be; refuse one that cannot be written or is too new."""
        try:
            (root / "runs").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise storage_error(error, root) from error
        if not os.access(root / "runs", os.W_OK | os.X_OK):
            raise StorageError(f"cannot write to {root}. {CHOOSE_FOLDER}")
        for folder in (root, root / "studies", root / "report"):  # a run's own folder is seen to by whoever holds it
            remove_dead_parts(folder)
        if not (root / "format.json").exists():
            atomic_write(root / "format.json", json.dumps({"format": FORMAT}).encode())
        return cls.open(root, mirror=mirror)

    @classmethod
    def open(cls, root: Path, *, mirror: str | None = None) -> "Store":
        """Open an existing folder for reading."""
        try:
            written_by = json.loads((root / "format.json").read_bytes())["format"]
        except FileNotFoundError:
            what = "holds no runs" if root.exists() else "does not exist, so that it holds no runs"
            raise StorageError(f"{root} {what}. Make some with `supple run STUDY --out {root}`.") from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise StorageError(f'{root / "format.json"} is damaged; it should read {{"format": {FORMAT}}}.') from None
        if not isinstance(written_by, int):
            raise StorageError(f'{root / "format.json"} is damaged; it should read {{"format": {FORMAT}}}.')
        if written_by > FORMAT:
            raise StorageError(
                f"{root} was written by a newer supple (store format {written_by}; this one reads up to {FORMAT}). "
                "Upgrade supple, or choose another folder with --out DIR."
            )
        return cls(root, Mirror(mirror) if mirror else None)

    def folder(self, spec: RunSpec) -> RunFolder:
        """Where the run of this spec lives, whether it exists or not."""
        return RunFolder(self.root / "runs" / spec.run_id, self.mirror)

    def folders(self) -> Iterator[RunFolder]:
        """Every run there is, in the order of their ids."""
        for spec_file in sorted((self.root / "runs").glob("*/spec.json")):
            yield RunFolder(spec_file.parent, self.mirror)
