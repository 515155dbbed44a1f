"""Examples on a device, and the datasets they come from."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from supple.fields import Checked
from supple_lab.errors import UserError


@dataclass(frozen=True)
class Examples:
    """Images as uint8 on the device with their labels; a batch is normalised there when it is asked for."""

    images_NCHW: Tensor
    labels_N: Tensor
    mean_C11: Tensor
    std_C11: Tensor

    def __post_init__(self) -> None:
        if self.images_NCHW.dtype != torch.uint8:  # floats in [0, 1] would be divided by 255 again, and all be black
            raise TypeError(
                "Examples.images_NCHW must be uint8, 0 to 255, of which a batch makes floats in [0, 1]; "
                f"got {self.images_NCHW.dtype}."
            )

    def __len__(self) -> int:
        return len(self.labels_N)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        _, channels, height, width = self.images_NCHW.shape
        return channels, height, width

    @property
    def num_labels(self) -> int:
        """How many labels a pass over all examples is scored by: one an image, one a byte of a text."""
        return len(self)

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised float images and labels at the indices."""
        images = self.images_NCHW[indices].float().div_(255.0)
        return images.sub_(self.mean_C11).div_(self.std_C11), self.labels_N[indices]

    def first(self, number: int) -> "Examples":
        return replace(self, images_NCHW=self.images_NCHW[:number], labels_N=self.labels_N[:number])

    def subset(self, indices: Tensor) -> "Examples":
        indices = indices.to(self.labels_N.device)
        return replace(self, images_NCHW=self.images_NCHW[indices], labels_N=self.labels_N[indices])

    def to(self, device: torch.device) -> "Examples":
        names = ("images_NCHW", "labels_N", "mean_C11", "std_C11")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})

    def relabelled(self, labels_N: Tensor) -> "Examples":
        return replace(self, labels_N=labels_N.to(self.labels_N.device))


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a dataset is like, known without its files."""

    image_shape: tuple[int, int, int]  # channels, height, width
    num_train: int
    num_test: int
    num_classes: int

    @property
    def is_text(self) -> bool:
        """Whether the examples are windows of bytes, which are written as images of one line (data/text.py)."""
        return self.image_shape[:2] == (1, 1)

    def __str__(self) -> str:
        number = f"{self.num_train:,} training and {self.num_test:,} test"
        if self.is_text:
            return f"{number} windows of {self.image_shape[2]} bytes"
        return f"{number} images of {'x'.join(map(str, self.image_shape))} in {self.num_classes} classes"


@dataclass(frozen=True)
class Splits:
    train: Examples
    test: Examples
    num_classes: int

    @property
    def facts(self) -> Facts:
        return Facts(
            image_shape=self.train.image_shape,
            num_train=len(self.train),
            num_test=len(self.test),
            num_classes=self.num_classes,
        )

    def to(self, device: torch.device) -> "Splits":
        return replace(self, train=self.train.to(device), test=self.test.to(device))


class DataError(UserError):
    """Data that is missing, incomplete or damaged; the message names the file, what was wanted, and what to do."""


class Dataset(Checked, ABC):
    """A frozen dataclass in every subclass; its fields say which form of the data."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """What the dataset is like, known without its files."""

    def check_here(self) -> None:
        """Raise DataError if the dataset needs files and there are none; whether they are whole, `load` finds."""

    @abstractmethod
    def load(self, device: torch.device) -> Splits:
        """Both splits on the device, or DataError."""
