"""CIFAR-10: 60,000 photographs of 32x32 pixels in 10 classes (Krizhevsky 2009), in the binary layout."""

from dataclasses import dataclass

from supple_lab.data.archive import Archive
from supple_lab.data.base import Facts
from supple_lab.data.cifar import BinaryRows
from supple_lab.data.known_file import KnownFile

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
