"""Model: a network's shape as data, built with one activation instance per site."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from torch import nn

from supple.activations import averages_pools
from supple.fields import Checked
from supple_lab.models.average_pool import AveragePool2d

Activation = Callable[[], nn.Module]


class Model(Checked, ABC):
    """A frozen dataclass in every subclass; its fields are the architecture."""

    name: ClassVar[str]
    clip_norm: ClassVar[float | None] = None  # total gradient norm that training clips to
    smallest_image: ClassVar[int] = 1  # pixels in height and width; of a smaller image the pools leave nothing

    @abstractmethod
    def build(self, activation: Activation, *, image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
        """The network, freshly initialised from torch's default generator."""


def at_least(smallest: int, model: Model, *names: str) -> None:
    """Raise an error that names the first of these fields below the smallest value it may have."""
    for name in names:
        if getattr(model, name) < smallest:
            raise ValueError(f"{type(model).__name__}.{name} must be at least {smallest}; got {getattr(model, name)}.")


def expansion_of(activation: nn.Module) -> int:
    """How many values the activation gives for each it takes."""
    return getattr(activation, "expansion", 1)


def halved(width: int, activation: Activation) -> int:
    """The width of a layer whose activation may concatenate: divided, so that what follows stays as wide (3.7)."""
    expansion = expansion_of(activation())
    if width % expansion:
        raise ValueError(
            f"a width of {width} cannot be divided by {expansion} for a concatenating activation; choose a multiple."
        )
    return width // expansion


def pool_after(activation: Activation) -> nn.Module:
    """Halves height and width: by the mean where large values are not the important ones, else by the maximum."""
    return AveragePool2d(2) if averages_pools(activation()) else nn.MaxPool2d(2)
