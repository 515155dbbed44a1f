"""Store: an output folder with a folder per run. It is the truth; everything else is made from it."""

import errno
import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from supple_lab.files import (
    CHOOSE_FOLDER,
    StorageError,
    WrongContent,
    atomic_write,
    read_regular,
    remove_parts,
    writing,
)
from supple_lab.spec import RunSpec
from supple_lab.store.mirror import Mirror
from supple_lab.store.reading import StoredRun, read_run
from supple_lab.store.run_folder import RunFolder

FORMAT = 2  # 1: statuses without their run's id; its runs stay, but unfinished ones start over

NO_RUNS_ON_WINDOWS = (
    "no run starts on Windows, which lacks flock; use Linux, macOS, or WSL on this machine. Lists, reports and the "
    "library itself, `import supple`, work here."
)


class Store:
    """The runs under one output folder; with a mirror, their files are copied to an fsspec URL as well."""

    def __init__(self, root: Path, mirror: Mirror | None = None) -> None:
        self.root = root
        self.mirror = mirror

    @classmethod
    def create(cls, root: Path, *, mirror: str | None = None) -> "Store":
        """Open the folder for writing, making it if need be; refuse one that cannot be written or is too new."""
        if sys.platform == "win32":
            raise StorageError(NO_RUNS_ON_WINDOWS)
        with writing(root):
            (root / "runs").mkdir(parents=True, exist_ok=True)
        if not os.access(root / "runs", os.W_OK | os.X_OK):
            raise StorageError(f"cannot write to {root}. {CHOOSE_FOLDER}")
        for folder in (root, root / "studies", root / "report"):  # a run's own folder is the business of its holder
            remove_parts(folder)
        if not (root / "format.json").exists() or format_of(root) < FORMAT:
            atomic_write(root / "format.json", json.dumps({"format": FORMAT}).encode())
            with suppress(OSError):
                (root / "index.sqlite").unlink()  # of format 1
        return cls.open(root, mirror=mirror)

    @classmethod
    def open(cls, root: Path, *, mirror: str | None = None) -> "Store":
        if (written_by := format_of(root)) > FORMAT:
            raise StorageError(
                f"{root} was written by a newer supple (store format {written_by}; this one reads up to {FORMAT}). "
                "Upgrade supple, or choose another folder with --out DIR."
            )
        if (runs := root / "runs").is_file():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(runs))
        return cls(root, Mirror(mirror) if mirror else None)

    def folder(self, spec: RunSpec) -> RunFolder:
        return RunFolder(self.root / "runs" / spec.run_id, self.mirror)

    def folders(self) -> Iterator[RunFolder]:
        """The folder of every run that has a spec, in the order of their ids."""
        for spec_file in sorted((self.root / "runs").glob("*/spec.json")):
            yield RunFolder(spec_file.parent, self.mirror)

    def runs(self) -> list[StoredRun]:
        """Every run there is, as it stands now, by its id."""
        try:
            with os.scandir(self.root / "runs") as found:
                folders = sorted(item.path for item in found if item.is_dir())
            return [read_run(Path(folder)) for folder in folders]
        except FileNotFoundError:  # all runs were removed at once
            return []


def format_of(root: Path) -> int:
    path = root / "format.json"
    if root.is_file():
        raise StorageError(f"{root} is a file, not a folder of runs.")
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    try:
        content = read_regular(path, limit=2**16)
        written_by = None if content is None else json.loads(content)["format"]
    except (WrongContent, ValueError, KeyError, TypeError, RecursionError):
        written_by = "damaged"
    if written_by is None:
        what = "holds no runs" if root.exists() else "does not exist, so it holds no runs"
        inside = sorted(str(path.parent) for path in root.glob("*/format.json"))
        around = [str(path) for path in root.resolve().parents[:2] if (path / "format.json").exists()]
        if inside or around:
            way = f"Some are in {', '.join(inside or around)}"
        else:
            way = f"Make some with `supple run STUDY --out {root}`"
        raise StorageError(f"{root} {what}. {way}.")
    if not isinstance(written_by, int):
        raise StorageError(f'{path} is damaged; it should read {{"format": {FORMAT}}}.')
    return written_by
