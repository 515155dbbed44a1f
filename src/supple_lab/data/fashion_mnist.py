"""Fashion-MNIST: 70,000 articles of clothing of 28x28 pixels (Xiao, Rasul, Vollgraf 2017): a drop-in for MNIST."""

from dataclasses import dataclass

from supple_lab.data.base import Facts
from supple_lab.data.idx import IdxDataset, idx_archives
from supple_lab.data.known_file import KnownFile

GZ = (
    ("train-images-idx3-ubyte.gz", 26_421_880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
    ("train-labels-idx1-ubyte.gz", 29_515, "25c81989df183df01b3e8a0aad5dffbe"),
    ("t10k-images-idx3-ubyte.gz", 4_422_102, "bef4ecab320f06d8554ea6380940ec79"),
    ("t10k-labels-idx1-ubyte.gz", 5_148, "bb300cfdad3c16e7a12a480ee83cd310"),
)
UNPACKED = (47_040_016, 60_008, 7_840_016, 10_008)
MIRRORS = (
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
        for (name, _, gz_md5), length in zip(GZ, UNPACKED, strict=True)
    )
    archives = idx_archives("FashionMNIST/raw", MIRRORS, GZ)
    verified_by = "published MD5s of the .gz files; unpacked files by length, header and range of the labels"
