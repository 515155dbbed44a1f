"""MNIST: 70,000 handwritten digits of 28x28 pixels (LeCun, Cortes, Burges), as IDX files."""

from dataclasses import dataclass

from supple_lab.data.base import Facts
from supple_lab.data.idx import IdxDataset, idx_archives
from supple_lab.data.known_file import KnownFile

GZ = (
    ("train-images-idx3-ubyte.gz", 9_912_422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    ("train-labels-idx1-ubyte.gz", 28_881, "d53e105ee54ea40749a09fcbcd1e9432"),
    ("t10k-images-idx3-ubyte.gz", 1_648_877, "9fb629c4189551a2d022fa330f9573f3"),
    ("t10k-labels-idx1-ubyte.gz", 4_542, "ec29112dd5afa0611ce80d1b7f02629c"),
)
UNPACKED = (
    (47_040_016, "6bbc9ace898e44ae57da46a324031adb"),
    (60_008, "a25bea736e30d166cdddb491f175f624"),
    (7_840_016, "2646ac647ad5339dbf082846283269ea"),
    (10_008, "27ae3e4e09519cfbb04c329615203637"),
)
MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist")


@dataclass(frozen=True, kw_only=True)
class MNIST(IdxDataset):
    """Grey 1x28x28 images in [0, 1], no mean taken off."""

    name = "mnist"
    facts = Facts(image_shape=(1, 28, 28), num_train=60_000, num_test=10_000, num_classes=10)
    subfolder = "MNIST/raw"
    files = tuple(
        KnownFile(name=name.removesuffix(".gz"), length=length, digest=f"md5:{md5}", gz_digest=f"md5:{gz_md5}")
        for (name, _, gz_md5), (length, md5) in zip(GZ, UNPACKED, strict=True)
    )
    archives = idx_archives("MNIST/raw", MIRRORS, GZ)
    verified_by = "published MD5s"
