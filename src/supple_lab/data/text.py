"""Texts: windows of bytes, each byte to be predicted from those before it. A label is the part a window is from."""

import io
import tarfile
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from supple_lab.data.base import DataError, Dataset, Examples, Facts, Splits
from supple_lab.data.files import KnownFile, OnDisk, read_files
from supple_lab.errors import at_least

NUM_BYTES = 256  # values of a byte, and classes of the next one
TEST_EVERY = 10  # windows: the last of each ten tests
OTHERS = "others"


@dataclass(frozen=True)
class Windows(Examples):
    """Windows as images of one line, a byte longer than what a network reads: the last byte is a label alone."""

    @property
    def image_shape(self) -> tuple[int, int, int]:
        return 1, 1, self.images_NCHW.shape[3] - 1

    @property
    def num_labels(self) -> int:
        return len(self) * self.image_shape[2]

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Bytes and the byte after each: (windows, bytes), as int64."""
        windows_NT = self.images_NCHW[indices].flatten(1).long()
        return windows_NT[:, :-1], windows_NT[:, 1:]


class Text(Dataset):
    """Parts of a text in windows without overlap but for one byte; the last of each ten tests.

    A frozen dataclass in every subclass, with a field ``window``, the number of bytes that a network reads.
    """

    window: int

    def __post_init__(self) -> None:
        at_least(1, self, "window")

    @property
    @abstractmethod
    def lengths(self) -> Mapping[str, int]:
        """The parts and how many bytes each has, in the order of their labels; known without files."""

    @property
    def facts(self) -> Facts:
        whole = [(length - 1) // self.window for length in self.lengths.values()]
        num_test = sum(number // TEST_EVERY for number in whole)
        shape = (1, 1, self.window)
        return Facts(image_shape=shape, num_train=sum(whole) - num_test, num_test=num_test, num_classes=NUM_BYTES)

    def cut(self, parts: Mapping[str, bytes | bytearray]) -> Splits:
        """Both splits of the parts, in the order of their labels."""
        texts = [torch.frombuffer(bytearray(parts[name]), dtype=torch.uint8) for name in self.lengths]
        # A byte more, so that each begins with the last byte of the one before; a rest is left out.
        windows = [text.unfold(0, self.window + 1, self.window) for text in texts]
        labels_N = torch.arange(len(windows)).repeat_interleave(torch.tensor([len(own) for own in windows]))
        images, zero = torch.cat(windows)[:, None, None], torch.zeros(1, 1, 1)
        is_test = torch.cat([torch.arange(len(own)) % TEST_EVERY == TEST_EVERY - 1 for own in windows])
        train, test = (Windows(images[own], labels_N[own], zero, zero + 1) for own in (~is_test, is_test))
        return Splits(train, test, num_classes=NUM_BYTES)


@dataclass(frozen=True, kw_only=True)
class Sums(Text):
    """Lines such as 17+25=42, made by rule, for trials without files; its parts are four operations."""

    name = "sums"
    window: int = 32

    @property
    def lengths(self) -> Mapping[str, int]:
        return {name: len(text) for name, text in sums().items()}

    def load(self, device: torch.device) -> Splits:
        return self.cut(sums()).to(device)


def sums() -> dict[str, bytes]:
    """All pairs of numbers below a hundred, in an order that jumps."""
    pairs = [divmod(7919 * place % 10_000, 100) for place in range(10_000)]  # a prime, so that each comes once
    return {
        "plus": "".join(f"{a}+{b}={a + b}\n" for a, b in pairs).encode(),
        "minus": "".join(f"{a}-{b}={a - b}\n" for a, b in pairs).encode(),
        "times": "".join(f"{a}*{b}={a * b}\n" for a, b in pairs).encode(),
        "max": "".join(f"{a}|{b}={max(a, b)}\n" for a, b in pairs).encode(),
    }


@dataclass(frozen=True, kw_only=True)
class CPython(Text, OnDisk):
    """The sources of Python 3.11.7's standard library without tests; its parts are packages."""

    name = "cpython"
    window: int = 256
    version: ClassVar[str] = "3.11.7"
    subfolder = "cpython-3.11.7"
    archives = ()
    mean, std = (0.0,), (1.0,)
    verified_by = "SHA-256"
    file: ClassVar[KnownFile] = KnownFile(
        name="lib.tar",
        length=12_646_400,
        digest="sha256:893134556dfae332f64cacddaa6cdcae212c65e45dccfaf00dbed44711b42a79",
    )

    @property
    def lengths(self) -> Mapping[str, int]:
        """Packages of more than 150 kB; the modules that are in none, and the small packages, are the last part."""
        return {
            "asyncio": 489_846,
            "distutils": 600_043,
            "email": 377_753,
            "encodings": 1_414_729,
            "http": 211_656,
            "idlelib": 764_479,
            "importlib": 214_519,
            "lib2to3": 288_580,
            "logging": 180_034,
            "multiprocessing": 274_648,
            "pydoc_data": 757_011,
            "tkinter": 363_144,
            "unittest": 248_028,
            "urllib": 160_379,
            "xml": 301_760,
            OTHERS: 5_433_127,
        }

    def read(self, folder: Path) -> Splits:
        try:
            (content,) = read_files(folder, [self.file])
        except DataError as error:
            root = folder.parent
            raise DataError(
                f"{error}\nThe text is made from the library of Python {self.version}, which no archive holds alone: "
                f"python tools/make_text.py {root} (--lib DIR if another Python runs it)"
            ) from error
        parts = {name: bytearray() for name in self.lengths}
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for member in archive:
                package = member.name.partition("/")[0]
                file = archive.extractfile(member)
                assert file is not None, "it holds files alone"
                parts[package if package in parts else OTHERS] += file.read()
        return self.cut(parts)
