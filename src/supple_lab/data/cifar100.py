"""CIFAR-100: 60,000 photographs of 32x32 pixels in 100 classes (Krizhevsky 2009), in the binary layout."""

from dataclasses import dataclass

from supple_lab.data.archive import Archive
from supple_lab.data.base import Facts
from supple_lab.data.cifar import BinaryRows
from supple_lab.data.known_file import KnownFile

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
