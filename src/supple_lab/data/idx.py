"""IDX, the format of MNIST: a magic number, the dimensions, then bytes."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from supple_lab.data.archive import Archive
from supple_lab.data.base import DataError, Facts, Splits
from supple_lab.data.known_file import KnownFile, read_files
from supple_lab.data.on_disk import OnDisk, Pixels, sizes

UNSIGNED_BYTES = 8  # the format's code for the type of the values


class IdxDataset(OnDisk):
    """Grey images and labels in four IDX files."""

    files: ClassVar[tuple[KnownFile, ...]]  # training images and labels, test images and labels
    mean = (0.0,)
    std = (1.0,)

    def read(self, folder: Path) -> Splits:
        contents = read_files(folder, self.files)
        values = [parse_idx(file.name, content) for file, content in zip(self.files, contents, strict=True)]
        for file, found, shape in zip(self.files, values, idx_shapes(self.facts), strict=True):
            if found.shape != shape:
                raise DataError(f"{file.name}: shape {shape} expected, {found.shape} found")
        for file, labels in zip(self.files[1::2], values[1::2], strict=True):
            if labels.max() >= self.facts.num_classes:
                raise DataError(f"{file.name}: labels below {self.facts.num_classes} expected, {labels.max()} found")
        train_images, train_labels, test_images, test_labels = values
        return self.splits((train_images[:, None], train_labels), (test_images[:, None], test_labels))

    def contents(self, folder: Path) -> list[str]:
        return sizes(folder)


def parse_idx(name: str, content: bytes) -> Pixels:
    """The array of bytes in an IDX file."""
    if len(content) < 4 or content[:3] != bytes((0, 0, UNSIGNED_BYTES)):
        raise DataError(f"{name}: not an IDX file of bytes: it starts with {content[:4].hex(' ')}, not 00 00 08")
    start = 4 + 4 * content[3]
    shape = tuple(int.from_bytes(content[at : at + 4]) for at in range(4, start, 4))
    if len(content) != start + math.prod(shape):
        raise DataError(f"{name}: its header says shape {shape}, but {len(content) - start:,} bytes follow")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()  # torch wants to own what it holds


def idx_shapes(facts: Facts) -> list[tuple[int, ...]]:
    """Shapes of the four arrays."""
    _, height, width = facts.image_shape
    counts = (facts.num_train, facts.num_test)
    return [shape for count in counts for shape in ((count, height, width), (count,))]


def idx_archives(folder: str, mirrors: Sequence[str], files: Sequence[tuple[str, int, str]]) -> tuple[Archive, ...]:
    """The .gz files by name, length and MD5, each at every mirror."""
    return tuple(
        Archive(path=f"{folder}/{name}", urls=tuple(f"{mirror}/{name}" for mirror in mirrors), length=length, md5=md5)
        for name, length, md5 in files
    )
