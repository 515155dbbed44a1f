"""Official archives: what to download, what it must be, and how it is unpacked without writing anywhere else."""

import hashlib
import os
import tarfile
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from supple_lab.data.base import DataError


@dataclass(frozen=True, kw_only=True)
class Archive:
    """One official file. A .tar.gz or .zip is unpacked in the data folder; a single .gz is read as it is."""

    path: str  # where it goes, relative to the data folder
    urls: tuple[str, ...]  # mirrors, the best first
    length: int
    md5: str

    @property
    def unpacks(self) -> bool:
        """Whether files come out of it that take its place."""
        return self.path.endswith((".tar.gz", ".zip"))

    def is_whole(self, file: Path) -> bool:
        """Whether the file is there and is this archive."""
        return file.is_file() and not self.fault_of(file)

    def fault_of(self, file: Path) -> str:
        """What tells a file that is there from this archive; empty where nothing does."""
        if (size := file.stat().st_size) != self.length:
            return f"has {size:,} bytes, not {self.length:,}"
        return "" if (found := md5_of(file)) == self.md5 else f"has the md5 {found}, not {self.md5}"


def md5_of(file: Path) -> str:
    """The checksum in which these archives are published."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def unpack(file: Path, root: Path) -> None:
    """Unpack beside, then move into the data folder: a kill leaves no half-written file under a final name."""
    try:
        with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=root, ignore_cleanup_errors=True) as beside:
            if file.name.endswith(".zip"):
                _unzip(file, Path(beside))
            else:
                _untar(file, Path(beside))
            move_into(Path(beside), root)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise DataError(f"{file} cannot be unpacked in {root}: {error}") from error


def _untar(file: Path, into: Path) -> None:
    with tarfile.open(file) as archive:
        archive.extractall(into, filter="data")  # refuses links and paths that lead outside


def _unzip(file: Path, into: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name.replace("\\", "/")).parts:
                raise DataError(f"{file} cannot be unpacked: its member {name!r} would be written outside the folder")
        archive.extractall(into)


def move_into(source: Path, target: Path) -> None:
    """Move a tree over another: whole folders where the target has none, else file by file; nothing else is touched."""
    for path in sorted(source.iterdir()):
        final = target / path.name
        if path.is_dir() and final.is_dir():
            move_into(path, final)
        else:
            os.replace(path, final)
