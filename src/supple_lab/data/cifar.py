"""CIFAR-10 and CIFAR-100, in their binary format."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from supple_lab.data.base import Facts, Splits
from supple_lab.data.files import Archive, KnownFile, OnDisk, Pixels, read_files


class BinaryRows(OnDisk):
    """Images as rows after their labels, of which the last is the class."""

    files: ClassVar[tuple[KnownFile, ...]]  # the last one is the test split
    num_labels: ClassVar[int]  # bytes before the pixels

    def read(self, folder: Path) -> Splits:
        *train, test = read_files(folder, self.files)
        return self.splits(self._parse(b"".join(train)), self._parse(test))

    def _parse(self, content: bytes) -> tuple[Pixels, Pixels]:
        shape = self.facts.image_shape
        rows = np.frombuffer(content, np.uint8).reshape(-1, self.num_labels + int(np.prod(shape)))
        return rows[:, self.num_labels :].copy().reshape(-1, *shape), rows[:, self.num_labels - 1]


MD5 = {
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
}


@dataclass(frozen=True, kw_only=True)
class CIFAR10(BinaryRows):
    """3x32x32 photographs, normalised by channel."""

    name = "cifar10"
    facts = Facts(image_shape=(3, 32, 32), num_train=50_000, num_test=10_000, num_classes=10)
    subfolder = "cifar-10-batches-bin"
    files = tuple(KnownFile(name=name, length=10_000 * 3_073, digest=f"md5:{md5}") for name, md5 in MD5.items())
    num_labels = 1
    archives = (
        Archive(
            path="cifar-10-binary.tar.gz",
            urls=("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
            length=170_052_171,
            md5="c32a1d4ab5d03f1284b67883e8d87530",
        ),
    )
    mean = (0.4914, 0.4822, 0.4465)
    std = (0.2470, 0.2435, 0.2616)
    verified_by = "published MD5s"


ROW = 2 + 3_072  # the coarse label, the class, the pixels
TRAIN_SHA256 = "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29"
SORTED_TEST_SHA256 = "b8278c7d1bf36d32ce3e9f2a02eb2c80c9458dcf9a15571d082434cc68f5f5ce"


@dataclass(frozen=True, kw_only=True)
class CIFAR100(BinaryRows):
    """3x32x32 photographs, normalised by channel with one mean and deviation for both splits."""

    name = "cifar100"
    facts = Facts(image_shape=(3, 32, 32), num_train=50_000, num_test=10_000, num_classes=100)
    subfolder = "cifar-100-binary"
    files = (
        KnownFile(name="train.bin", length=50_000 * ROW, digest=f"sha256:{TRAIN_SHA256}"),
        # Copies of the test split differ in order; sorted, all are one, so that a slice of it is the same everywhere.
        KnownFile(name="test.bin", length=10_000 * ROW, digest=f"sha256:{SORTED_TEST_SHA256}", row_length=ROW),
    )
    num_labels = 2
    archives = (
        Archive(
            path="cifar-100-binary.tar.gz",
            urls=("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
            length=168_513_733,
            md5="03b5dce01913d631647c71ecec9e9cb8",
        ),
    )
    mean = (0.5071, 0.4865, 0.4409)
    std = (0.2673, 0.2564, 0.2762)
    verified_by = "SHA-256; the test split as a set of rows, whose order differs between copies"
