"""A file whose length and checksum are known, read only if they are right."""

import gzip
import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from supple_lab.data.base import DataError


@dataclass(frozen=True, kw_only=True)
class KnownFile:
    """One file of a dataset, or the .gz it is distributed as: either will do."""

    name: str
    length: int
    digest: str | None  # such as md5:6bbc...; None where none is published for the unpacked file
    gz_digest: str | None = None  # of NAME.gz; None where there is no such file
    row_length: int | None = None  # rows of this length may come in any order: they are sorted, then digested

    def read(self, folder: Path) -> bytes:
        """The verified content, rows sorted where their order is free; DataError says what is wrong with the file."""
        problems = []
        for path in self._forms(folder):
            try:
                return self._verified(path)
            except FileNotFoundError:
                continue
            except DataError as error:
                problems.append(str(error))
        raise DataError(problems[0] if problems else f"{self.name}: missing; expected {self.length:,} bytes")

    def _forms(self, folder: Path) -> list[Path]:
        """The file and its .gz, if it has one; a form with a published checksum goes first."""
        forms = [folder / self.name] + [folder / f"{self.name}.gz"] * (self.gz_digest is not None)
        return forms if self.digest is not None else forms[::-1]

    def _verified(self, path: Path) -> bytes:
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise DataError(f"{path.name}: cannot be read: {error.strerror}") from error
        if path.name != self.name:
            check_digest(path.name, content, expected=self.gz_digest)
            content = _unzipped(path.name, content)
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
    """Compare the checksum where one is published."""
    if expected is None:
        return
    kind, _, wanted = expected.partition(":")
    found = hashlib.new(kind, content, usedforsecurity=False).hexdigest()
    if found != wanted:
        raise DataError(f"{name}: {kind} {wanted} expected, {found} found")


def sorted_rows(content: bytes, row_length: int) -> bytes:
    """The rows in ascending order of their bytes: the same for every order in which a copy has them."""
    return b"".join(sorted(content[at : at + row_length] for at in range(0, len(content), row_length)))


def _unzipped(name: str, content: bytes) -> bytes:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{name}: not a whole gzip file: {error}") from error
