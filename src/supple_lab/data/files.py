"""Data in files: their checksums, archives and folders, and where a dataset lies on disk."""

import gzip
import hashlib
import os
import tarfile
import tempfile
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from supple_lab.data.base import DataError, Dataset, Examples, Splits

MAX_OVERHEAD = 1 << 20  # bytes by which a .gz may be longer than what comes out of it: far more than gzip adds


@dataclass(frozen=True, kw_only=True)
class KnownFile:
    """One file of a dataset, or the .gz it is distributed as: either will do."""

    name: str
    length: int
    digest: str | None  # such as md5:6bbc...; None if none is published for the unpacked file
    gz_digest: str | None = None  # of NAME.gz; None if there is no such file
    row_length: int | None = None  # rows of this length may come in any order: they are sorted, then digested

    def read(self, folder: Path) -> bytes:
        """The verified content, rows sorted if their order is free; DataError says what is wrong with the file."""
        problems = []
        forms = [folder / self.name] + [folder / f"{self.name}.gz"] * (self.gz_digest is not None)
        for path in forms if self.digest is not None else forms[::-1]:  # one with a published checksum goes first
            try:
                return self._verified(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                problems.append(f"{path.name}: cannot be read: {error.strerror}")
            except DataError as error:
                problems.append(str(error))
        raise DataError(problems[0] if problems else f"{self.name}: missing; expected {self.length:,} bytes")

    def _verified(self, path: Path) -> bytes:
        is_gz = path.name != self.name
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size  # before any of it is read: the file may be endless
            if size > self.length + MAX_OVERHEAD * is_gz:
                raise DataError(f"{path.name}: {self.length:,} bytes expected, {size:,} found")
            content = file.read()
        if is_gz:
            check_digest(path.name, content, expected=self.gz_digest)
            try:
                content = gzip.decompress(content)
            except (OSError, EOFError, zlib.error) as error:
                raise DataError(f"{path.name}: not a whole gzip file: {error}") from error
        if len(content) != self.length:
            raise DataError(f"{path.name}: {self.length:,} bytes expected, {len(content):,} found")
        if self.row_length is not None:
            content = sorted_rows(content, self.row_length)
        check_digest(path.name, content, expected=self.digest)
        return content


def read_files(folder: Path, files: Sequence[KnownFile]) -> list[bytes]:
    """The verified contents, in order; the DataError names every file that is not as it should be."""
    contents, problems = [], []
    for file in files:
        try:
            contents.append(file.read(folder))
        except DataError as error:
            problems.append(str(error))
    if problems:
        raise DataError("\n  ".join([f"{len(problems)} of {len(files)} files in {folder} are not right:", *problems]))
    return contents


def check_digest(name: str, content: bytes, *, expected: str | None) -> None:
    if expected is None:
        return
    kind, _, wanted = expected.partition(":")
    found = hashlib.new(kind, content, usedforsecurity=False).hexdigest()
    if found != wanted:
        raise DataError(f"{name}: {kind} {wanted} expected, {found} found")


def sorted_rows(content: bytes, row_length: int) -> bytes:
    """The rows in ascending order of their bytes: the same for every order in which a copy has them."""
    return b"".join(sorted(content[at : at + row_length] for at in range(0, len(content), row_length)))


@dataclass(frozen=True, kw_only=True)
class Archive:
    """One official file. A .tar.gz or .zip is unpacked in the data folder; a single .gz is read as it is."""

    path: str  # where it goes, relative to the data folder
    urls: tuple[str, ...]  # mirrors, the best first
    length: int
    md5: str

    def is_whole(self, file: Path) -> bool:
        return file.is_file() and not self.fault_of(file)

    def fault_of(self, file: Path) -> str:
        """In what a file that is there differs from this archive; empty if in nothing."""
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
                with zipfile.ZipFile(file) as zipped:
                    zipped.extractall(beside)  # keeps all members inside
            else:
                with tarfile.open(file) as archive:
                    archive.extractall(beside, filter="data")  # refuses links and paths that lead outside
            move_into(Path(beside), root)
    # A RuntimeError is how zipfile refuses encrypted members and compressions that it does not know.
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
        raise DataError(f"{file} cannot be unpacked in {root}: {error}") from error


def move_into(source: Path, target: Path) -> None:
    """Move a tree over another: whole folders if the target has none, else file by file; nothing else is touched."""
    for path in sorted(source.iterdir()):
        final = target / path.name
        if path.is_dir() and final.is_dir():
            move_into(path, final)
        else:
            os.replace(path, final)


VARIABLE = "SUPPLE_DATA"


def use_folder(folder: Path) -> None:
    """Look here first, in this process and in those it starts: what --data DIR does."""
    os.environ[VARIABLE] = str(folder.expanduser().absolute())


def data_folders() -> list[Path]:
    chosen = os.environ.get(VARIABLE)
    return [*([Path(chosen).expanduser().absolute()] if chosen else []), cache_folder()]


def target_folder() -> Path:
    """Where downloads go: the chosen folder, or else the cache folder."""
    return data_folders()[0]


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/supple, or ~/.cache/supple."""
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "supple"


Pixels = NDArray[np.uint8]


class OnDisk(Dataset):
    """A dataset whose files the user has or gets with `supple data get`; a frozen dataclass in every subclass."""

    subfolder: ClassVar[str]  # of a data folder, as the official archive unpacks
    archives: ClassVar[tuple[Archive, ...]]
    mean: ClassVar[tuple[float, ...]]  # of each channel, of values in [0, 1]; for both splits
    std: ClassVar[tuple[float, ...]]
    verified_by: ClassVar[str]

    def check_here(self) -> None:
        self.find()

    def load(self, device: torch.device) -> Splits:
        folder = self.find()
        try:
            return self.read(folder).to(device)
        except DataError as error:
            root = folder.parents[len(Path(self.subfolder).parts) - 1]
            raise DataError(
                f"{self.name}: {error}\nTo get it whole: supple data get {self.name} --data {root}"
            ) from error

    def find(self) -> Path:
        """The first data folder's subfolder that exists."""
        roots = data_folders()
        for root in roots:
            if self.is_in(root):
                return root / self.subfolder
        raise DataError(
            f"{self.name} is not here. Looked for {self.subfolder} in {' and in '.join(map(str, roots))}.\n"
            f"If you have it, name the folder that holds {self.subfolder} with --data DIR or ${VARIABLE}. "
            f"If not: supple data get {self.name}"
        )

    def is_in(self, root: Path) -> bool:
        """Whether a data folder has something of this dataset; an empty subfolder hides no full one."""
        folder = root / self.subfolder
        try:
            return folder.is_dir() and any(folder.iterdir())
        except PermissionError:
            return True  # reading it will say so

    @abstractmethod
    def read(self, folder: Path) -> Splits:
        """Both splits from a folder, verified; DataError says what is wrong there."""

    def contents(self, folder: Path) -> list[str]:
        """What the folder holds, a line each, without a judgement."""
        try:
            files = sorted(path for path in folder.iterdir() if path.is_file())
            return [f"{path.name}, {path.stat().st_size:,} bytes" for path in files]
        except OSError as error:
            raise DataError(f"{folder}: cannot be read: {error.strerror}") from error

    def splits(self, *pairs: tuple[Pixels, Pixels]) -> Splits:
        """Images and labels, for training and for test, with the dataset's normalisation."""
        mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (self.mean, self.std))
        train, test = (
            Examples(torch.from_numpy(images_NCHW), torch.from_numpy(labels_N.astype(np.int64)), mean, std)
            for images_NCHW, labels_N in pairs
        )
        return Splits(train, test, num_classes=self.facts.num_classes)
