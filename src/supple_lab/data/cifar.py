"""The binary layout of CIFAR: rows of label bytes and 3,072 pixels. No pickle is read."""

from pathlib import Path
from typing import ClassVar

import numpy as np

from supple_lab.data.base import Splits
from supple_lab.data.known_file import KnownFile, read_files
from supple_lab.data.on_disk import OnDisk, Pixels, sizes


class BinaryRows(OnDisk):
    """Images as rows after their labels, of which the last is the class."""

    files: ClassVar[tuple[KnownFile, ...]]  # the last one is the test split
    num_labels: ClassVar[int]  # bytes before the pixels

    def read(self, folder: Path) -> Splits:
        *train, test = read_files(folder, self.files)
        return self.splits(self._parse(b"".join(train)), self._parse(test))

    def contents(self, folder: Path) -> list[str]:
        return sizes(folder)

    def _parse(self, content: bytes) -> tuple[Pixels, Pixels]:
        shape = self.facts.image_shape
        rows = np.frombuffer(content, np.uint8).reshape(-1, self.num_labels + int(np.prod(shape)))
        return rows[:, self.num_labels :].copy().reshape(-1, *shape), rows[:, self.num_labels - 1]
