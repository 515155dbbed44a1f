"""Model: an architecture as data, and the layers that the paper's networks share."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.activations import averages_pools
from supple.fields import Checked


class AveragePool2d(nn.AvgPool2d):
    """``nn.AvgPool2d``, whose backward pass on a GPU is an upsampling if windows tile the image.

    torch's own takes 3.7 times as long as that of a max-pool (bfloat16, channels last, H200).
    """

    def forward(self, x: Tensor) -> Tensor:
        if x.is_cuda and torch.is_grad_enabled() and x.requires_grad and (size := self.tile(x)) is not None:
            mean: Tensor = MeanOfTiles.apply(x, size)
            return mean
        return super().forward(x)

    def tile(self, x: Tensor) -> tuple[int, int] | None:
        """Height and width of the windows, if they cover the images without gap, overlap or rest."""
        size, stride, padding = pair(self.kernel_size), pair(self.stride), pair(self.padding)
        tiles = size == stride and padding == (0, 0) and self.divisor_override is None and x.dim() == 4
        return size if tiles and x.shape[-2] % size[0] == 0 and x.shape[-1] % size[1] == 0 else None


class MeanOfTiles(torch.autograd.Function):
    """Nothing is kept for the backward pass: each pixel's gradient is its tile's, divided by the tile's size."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, size: tuple[int, int]) -> Tensor:
        return F.avg_pool2d(x, size)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, tuple[int, int]], output: Tensor) -> None:
        _, ctx.size = inputs

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """To every pixel of a tile the same."""
        height, width = ctx.size
        return F.interpolate(gradient / (height * width), scale_factor=(height, width), mode="nearest"), None


def pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size


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
    return AveragePool2d(2) if averages_pools(activation()) else nn.MaxPool2d(2)
