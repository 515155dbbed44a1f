"""Examples on a device, and the datasets they come from."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor


@dataclass(frozen=True)
class Examples:
    """Images as uint8 on the device with their labels; a batch is normalised there when it is asked for."""

    images_NCHW: Tensor
    labels_N: Tensor
    mean_C11: Tensor
    std_C11: Tensor

    def __len__(self) -> int:
        return len(self.labels_N)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        _, channels, height, width = self.images_NCHW.shape
        return channels, height, width

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised float images and labels at the indices."""
        images = self.images_NCHW[indices].float().div_(255.0)
        return images.sub_(self.mean_C11).div_(self.std_C11), self.labels_N[indices]

    def subset(self, indices: Tensor) -> "Examples":
        """The examples at the indices alone."""
        indices = indices.to(self.labels_N.device)
        return replace(self, images_NCHW=self.images_NCHW[indices], labels_N=self.labels_N[indices])

    def relabelled(self, labels_N: Tensor) -> "Examples":
        """The same images under other labels."""
        return replace(self, labels_N=labels_N.to(self.labels_N.device))


@dataclass(frozen=True)
class Splits:
    """A dataset's training and test examples."""

    train: Examples
    test: Examples
    num_classes: int


class Dataset(ABC):
    """A frozen dataclass in every subclass; its fields say which form of the data."""

    name: ClassVar[str]

    @abstractmethod
    def load(self, device: torch.device) -> Splits:
        """Both splits on the device."""
