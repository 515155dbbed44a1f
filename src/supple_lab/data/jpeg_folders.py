"""The layout of TinyImageNet: train/CLASS/images/*.JPEG, and a list that says the class of each file in val/images."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from supple_lab.data.base import DataError
from supple_lab.data.on_disk import Pixels


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The images of both splits, those for training first; classes are numbered in the order of their names."""

    files: tuple[str, ...]
    labels: tuple[int, ...]
    num_train: int
    fingerprint: str  # changes when a file comes, goes, or is written anew

    @property
    def num_test(self) -> int:
        return len(self.files) - self.num_train

    @property
    def most_in_a_class(self) -> int:
        """Training images in the largest class."""
        return max(Counter(self.labels[: self.num_train]).values(), default=0)


def list_images(folder: Path, *, num_classes: int) -> Listing:
    """Every image that is there, with its class."""
    label_of = {name: label for label, name in enumerate(sorted(_text(folder / "wnids.txt").split()))}
    if len(label_of) != num_classes:
        raise DataError(f"{folder / 'wnids.txt'}: {num_classes} classes expected, {len(label_of)} found")
    seen = hashlib.sha256()
    train, test = list(_train(folder, label_of)), list(_val(folder, label_of))
    for entry, label in train + test:
        status = entry.stat()
        seen.update(f"{entry.path[len(str(folder)) :]} {label} {status.st_size} {status.st_mtime_ns}\n".encode())
    return Listing(
        files=tuple(entry.path for entry, _ in train + test),
        labels=tuple(label for _, label in train + test),
        num_train=len(train),
        fingerprint=seen.hexdigest(),
    )


def decode_into_(out_NCHW: Pixels, files: Sequence[str]) -> None:
    """Decode every file to RGB, grey ones too; the decoder leaves the interpreter to other threads."""

    def decode(index: int) -> None:
        out_NCHW[index] = _decoded(files[index], size=out_NCHW.shape[2:])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(decode, range(len(files))):
            pass


def _decoded(file: str, *, size: tuple[int, ...]) -> Pixels:
    from PIL import Image  # nothing else needs it

    try:
        with Image.open(file, formats=["JPEG"]) as image:
            if image.size[::-1] != size:
                raise DataError(f"{file}: {size[1]}x{size[0]} pixels expected, {image.size[0]}x{image.size[1]} found")
            return np.asarray(image.convert("RGB")).transpose(2, 0, 1)
    except (OSError, SyntaxError) as error:  # Pillow raises SyntaxError at some broken headers
        raise DataError(f"{file}: not a whole JPEG image: {error}") from error


def _train(folder: Path, label_of: dict[str, int]) -> Iterator[tuple[os.DirEntry, int]]:
    for place in _entries(folder / "train"):
        if place.name not in label_of:
            raise DataError(f"{place.path}: no class of that name in wnids.txt")
        for entry in _entries(Path(place.path, "images")):
            yield entry, label_of[place.name]


def _val(folder: Path, label_of: dict[str, int]) -> Iterator[tuple[os.DirEntry, int]]:
    annotations = folder / "val" / "val_annotations.txt"
    rows = [line.split("\t") for line in _text(annotations).splitlines()]
    class_of = {row[0]: row[1] if len(row) > 1 else "" for row in rows}
    if unknown := set(class_of.values()) - label_of.keys():
        raise DataError(f"{annotations}: {sorted(unknown)[0]!r} is no class of wnids.txt")
    for entry in _entries(folder / "val" / "images"):
        if entry.name not in class_of:
            raise DataError(f"{entry.path}: val_annotations.txt does not say its class")
        yield entry, label_of[class_of[entry.name]]


def _entries(folder: Path) -> list[os.DirEntry]:
    """What a folder holds, in the order of names, hidden files left out; nothing where there is no such folder."""
    try:
        with os.scandir(folder) as entries:
            return sorted((e for e in entries if not e.name.startswith(".")), key=lambda entry: entry.name)
    except OSError:
        return []


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: cannot be read: {error}") from error
