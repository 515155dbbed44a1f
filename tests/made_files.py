"""Small datasets in the official formats, and dataset classes that expect exactly them: the code that reads is real."""

import gzip
import hashlib
from pathlib import Path

import numpy as np
from PIL import Image

from bad_server import BadServer
from supple_lab.data.base import Facts
from supple_lab.data.cifar import CIFAR10, CIFAR100
from supple_lab.data.files import Archive, KnownFile, OnDisk, sorted_rows
from supple_lab.data.idx import MNIST, FashionMNIST
from supple_lab.data.tiny_imagenet import TinyImageNet

NUM_TRAIN, NUM_TEST = 20, 10


def expecting(cls: type[OnDisk], **attributes) -> type[OnDisk]:
    """The dataset's own class with other expectations."""
    return type(f"Small{cls.__name__}", (cls,), attributes)


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def idx(values: np.ndarray) -> bytes:
    """An array of bytes as an IDX file."""
    return bytes((0, 0, 8, values.ndim)) + np.array(values.shape, ">u4").tobytes() + values.tobytes()


def random_bytes(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


def classes(number: int, num_classes: int) -> np.ndarray:
    return np.arange(number, dtype=np.uint8) % num_classes


def idx_contents() -> dict[str, bytes]:
    """The four files of an MNIST of 5x4 pixels."""
    return {
        "train-images-idx3-ubyte": idx(random_bytes(NUM_TRAIN, 5, 4)),
        "train-labels-idx1-ubyte": idx(classes(NUM_TRAIN, 10)),
        "t10k-images-idx3-ubyte": idx(random_bytes(NUM_TEST, 5, 4)[::-1].copy()),
        "t10k-labels-idx1-ubyte": idx(classes(NUM_TEST, 10)),
    }


def idx_class(cls: type[OnDisk], *, with_md5: bool) -> type[OnDisk]:
    """MNIST or Fashion-MNIST, expecting the files of idx_contents."""

    def known(name: str, content: bytes) -> KnownFile:
        digest = f"md5:{md5(content)}" if with_md5 else None
        return KnownFile(name=name, length=len(content), digest=digest, gz_digest=f"md5:{md5(gz(content))}")

    files = tuple(known(name, content) for name, content in idx_contents().items())
    facts = Facts(image_shape=(1, 5, 4), num_train=NUM_TRAIN, num_test=NUM_TEST, num_classes=10)
    return expecting(cls, files=files, facts=facts)


def gz(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


SmallMNIST = idx_class(MNIST, with_md5=True)
SmallFashionMNIST = idx_class(FashionMNIST, with_md5=False)


def mnist_at(server: BadServer) -> OnDisk:
    """MNIST from a server of our own."""
    packed = {f"{name}.gz": gz(content) for name, content in idx_contents().items()}
    for name, content in packed.items():
        server.serve(f"/{name}", content)
    urls = {name: (server.url(f"/{name}"),) for name in packed}
    known = (Archive(path=f"MNIST/raw/{n}", urls=urls[n], length=len(c), md5=md5(c)) for n, c in packed.items())
    return expecting(SmallMNIST, archives=tuple(known))()


def write_all(folder: Path, contents: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return folder


def rows(number: int, *, num_labels: int, num_classes: int) -> bytes:
    """Images of 32x32 pixels in the binary layout of CIFAR; the last label is the class."""
    content = random_bytes(number, num_labels + 3072)
    content[:, num_labels - 1] = classes(number, num_classes)
    return content.tobytes()


def cifar10_contents() -> dict[str, bytes]:
    train = rows(NUM_TRAIN, num_labels=1, num_classes=10)
    return {
        "data_batch_1.bin": train[: len(train) // 2],
        "data_batch_2.bin": train[len(train) // 2 :],
        "test_batch.bin": rows(NUM_TEST, num_labels=1, num_classes=10),
    }


SmallCIFAR10 = expecting(
    CIFAR10,
    files=tuple(
        KnownFile(name=name, length=len(content), digest=f"md5:{md5(content)}")
        for name, content in cifar10_contents().items()
    ),
    facts=Facts(image_shape=(3, 32, 32), num_train=NUM_TRAIN, num_test=NUM_TEST, num_classes=10),
)


def cifar100_contents() -> dict[str, bytes]:
    return {
        "train.bin": rows(NUM_TRAIN, num_labels=2, num_classes=100),
        "test.bin": rows(NUM_TEST, num_labels=2, num_classes=100),
    }


def _cifar100_files() -> tuple[KnownFile, ...]:
    train, test = cifar100_contents().values()
    digests = [hashlib.sha256(content).hexdigest() for content in (train, sorted_rows(test, 3074))]
    return (
        KnownFile(name="train.bin", length=len(train), digest=f"sha256:{digests[0]}"),
        KnownFile(name="test.bin", length=len(test), digest=f"sha256:{digests[1]}", row_length=3074),
    )


SmallCIFAR100 = expecting(
    CIFAR100,
    files=_cifar100_files(),
    facts=Facts(image_shape=(3, 32, 32), num_train=NUM_TRAIN, num_test=NUM_TEST, num_classes=100),
)

WNIDS = ("n02", "n01", "n03")  # the official list is not sorted either
SmallTinyImageNet = expecting(
    TinyImageNet, facts=Facts(image_shape=(3, 64, 64), num_train=6, num_test=3, num_classes=len(WNIDS))
)


def write_jpeg(path: Path, brightness: int, *, mode: str = "RGB", size: tuple[int, int] = (64, 64)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, (brightness, 0, 0) if mode == "RGB" else brightness).save(path, "JPEG", quality=95)


def write_tiny_imagenet(folder: Path) -> Path:
    """Two training images and one validation image a class, their red channel telling class and number."""
    for label, wnid in enumerate(sorted(WNIDS)):
        for number in range(2):
            write_jpeg(folder / f"train/{wnid}/images/{wnid}_{number}.JPEG", 80 * label + 20 * number)
        write_jpeg(folder / f"val/images/val_{label}.JPEG", 80 * label + 10)
    lines = [f"val_{label}.JPEG\t{wnid}\t0\t0\t63\t63\n" for label, wnid in enumerate(sorted(WNIDS))]
    (folder / "val" / "val_annotations.txt").write_text("".join(lines))
    (folder / "wnids.txt").write_text("\n".join(WNIDS) + "\n")
    return folder
