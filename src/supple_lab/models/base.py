"""Model: a network's shape as data, built with one activation instance per site."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from torch import nn

Activation = Callable[[], nn.Module]


class Model(ABC):
    """A frozen dataclass in every subclass; its fields are the architecture."""

    name: ClassVar[str]

    @abstractmethod
    def build(self, activation: Activation, *, image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
        """The network, freshly initialised from torch's default generator."""
