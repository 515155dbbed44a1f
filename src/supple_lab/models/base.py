"""Model: an architecture as data, and the layers that the paper's networks share."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from torch import nn

from supple.activations import relative
from supple.convert.pools import AveragePool2d
from supple.fields import Checked

Activation = Callable[[], nn.Module]


class Model(Checked, ABC):
    """A frozen dataclass in every subclass; its fields are the architecture."""

    name: ClassVar[str]
    clip_norm: float | None = None  # total gradient norm that training clips to
    smallest_image: ClassVar[int] = 1  # pixels in height and width; of a smaller image the pools leave nothing

    @abstractmethod
    def build(self, activation: Activation, *, image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
        """The network, freshly initialised from torch's default generator."""


def halved(width: int, activation: Activation) -> int:
    """The width of a layer whose activation may concatenate: divided, so that what follows stays as wide (3.7)."""
    expansion = getattr(activation(), "expansion", 1)
    if width % expansion:
        raise ValueError(
            f"a width of {width} cannot be divided by {expansion} for a concatenating activation; choose a multiple."
        )
    return width // expansion


def pool_after(activation: Activation) -> nn.Module:
    """Halves height and width: by the mean if large values are not the important ones, else by the maximum."""
    return AveragePool2d(2) if relative(activation()).averages_pools else nn.MaxPool2d(2)
