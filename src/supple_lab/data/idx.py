"""MNIST and Fashion-MNIST, in the IDX format."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from supple_lab.data.base import DataError, Facts, Splits
from supple_lab.data.files import Archive, KnownFile, OnDisk, Pixels, read_files

UNSIGNED_BYTES = 8  # the format's code for the type of the values


class IdxDataset(OnDisk):
    """Grey images and labels in four IDX files."""

    files: ClassVar[tuple[KnownFile, ...]]  # training images and labels, test images and labels
    mean = (0.0,)
    std = (1.0,)

    def read(self, folder: Path) -> Splits:
        contents = read_files(folder, self.files)
        values = [parse_idx(file.name, content) for file, content in zip(self.files, contents, strict=True)]
        counts, image_shape = (self.facts.num_train, self.facts.num_test), self.facts.image_shape[1:]
        shapes = [shape for count in counts for shape in ((count, *image_shape), (count,))]
        for file, found, shape in zip(self.files, values, shapes, strict=True):
            if found.shape != shape:
                raise DataError(f"{file.name}: shape {shape} expected, {found.shape} found")
        for file, labels in zip(self.files[1::2], values[1::2], strict=True):
            if labels.max() >= self.facts.num_classes:
                raise DataError(f"{file.name}: labels below {self.facts.num_classes} expected, {labels.max()} found")
        train_images, train_labels, test_images, test_labels = values
        return self.splits((train_images[:, None], train_labels), (test_images[:, None], test_labels))


def parse_idx(name: str, content: bytes) -> Pixels:
    if len(content) < 4 or content[:3] != bytes((0, 0, UNSIGNED_BYTES)):
        raise DataError(f"{name}: not an IDX file of bytes: it starts with {content[:4].hex(' ')}, not 00 00 08")
    start = 4 + 4 * content[3]
    shape = tuple(int.from_bytes(content[at : at + 4]) for at in range(4, start, 4))
    if len(content) != start + math.prod(shape):
        raise DataError(f"{name}: its header says shape {shape}, but {len(content) - start:,} bytes follow")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()  # torch wants to own what it holds


def idx_archives(folder: str, mirrors: Sequence[str], files: Sequence[tuple[str, int, str]]) -> tuple[Archive, ...]:
    """The .gz files by name, length and MD5, each at every mirror."""
    return tuple(
        Archive(path=f"{folder}/{name}", urls=tuple(f"{mirror}/{name}" for mirror in mirrors), length=length, md5=md5)
        for name, length, md5 in files
    )


MNIST_GZ = (
    ("train-images-idx3-ubyte.gz", 9_912_422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    ("train-labels-idx1-ubyte.gz", 28_881, "d53e105ee54ea40749a09fcbcd1e9432"),
    ("t10k-images-idx3-ubyte.gz", 1_648_877, "9fb629c4189551a2d022fa330f9573f3"),
    ("t10k-labels-idx1-ubyte.gz", 4_542, "ec29112dd5afa0611ce80d1b7f02629c"),
)
MNIST_UNPACKED = (
    (47_040_016, "6bbc9ace898e44ae57da46a324031adb"),
    (60_008, "a25bea736e30d166cdddb491f175f624"),
    (7_840_016, "2646ac647ad5339dbf082846283269ea"),
    (10_008, "27ae3e4e09519cfbb04c329615203637"),
)
MNIST_MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist")


@dataclass(frozen=True, kw_only=True)
class MNIST(IdxDataset):
    """Grey 1x28x28 images in [0, 1], no mean taken off."""

    name = "mnist"
    facts = Facts(image_shape=(1, 28, 28), num_train=60_000, num_test=10_000, num_classes=10)
    subfolder = "MNIST/raw"
    files = tuple(
        KnownFile(name=name.removesuffix(".gz"), length=length, digest=f"md5:{md5}", gz_digest=f"md5:{gz_md5}")
        for (name, _, gz_md5), (length, md5) in zip(MNIST_GZ, MNIST_UNPACKED, strict=True)
    )
    archives = idx_archives("MNIST/raw", MNIST_MIRRORS, MNIST_GZ)
    verified_by = "published MD5s"


FASHION_GZ = (
    ("train-images-idx3-ubyte.gz", 26_421_880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
    ("train-labels-idx1-ubyte.gz", 29_515, "25c81989df183df01b3e8a0aad5dffbe"),
    ("t10k-images-idx3-ubyte.gz", 4_422_102, "bef4ecab320f06d8554ea6380940ec79"),
    ("t10k-labels-idx1-ubyte.gz", 5_148, "bb300cfdad3c16e7a12a480ee83cd310"),
)
FASHION_UNPACKED = (47_040_016, 60_008, 7_840_016, 10_008)
FASHION_MIRRORS = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
)


@dataclass(frozen=True, kw_only=True)
class FashionMNIST(IdxDataset):
    """Grey 1x28x28 images in [0, 1], as MNIST."""

    name = "fashion_mnist"
    facts = Facts(image_shape=(1, 28, 28), num_train=60_000, num_test=10_000, num_classes=10)
    subfolder = "FashionMNIST/raw"
    files = tuple(
        KnownFile(name=name.removesuffix(".gz"), length=length, digest=None, gz_digest=f"md5:{gz_md5}")
        for (name, _, gz_md5), length in zip(FASHION_GZ, FASHION_UNPACKED, strict=True)
    )
    archives = idx_archives("FashionMNIST/raw", FASHION_MIRRORS, FASHION_GZ)
    verified_by = "published MD5s of the .gz files; unpacked files by length, header and range of the labels"
