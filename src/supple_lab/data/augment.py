"""Augmentation: images moved about at random, a training set at a time, as an epoch sees it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from supple_lab.data.base import Examples
from supple_lab.streams import stream

SHIFT = 4  # pixels by which a crop may be off, in each direction: the padding that everybody gives CIFAR
AT_ONCE = 2_000  # images; 50 MB of indices


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """A flip by chance, then a crop of the padded image, then a counter-clockwise turn of up to ``max_degrees``.

    Turned pixels are the nearest ones; corners that a turn leaves empty get the mean colour, as after normalising.
    """

    padding: Literal["black", "reflect"]
    max_degrees: float = 0.0

    def in_epoch(self, examples: Examples, *, seed: int, stage: int) -> Callable[[int], Examples]:
        """Return a function that gives the examples as an epoch of the stage sees them, the same each time."""
        return lambda epoch: self.augmented(examples, stream(seed, "augmentation", stage, epoch))

    def augmented(self, examples: Examples, generator: torch.Generator) -> Examples:
        number, device = len(examples), examples.images_NCHW.device
        flips_N = torch.rand(number, generator=generator) < 0.5
        shifts_N2 = torch.randint(-SHIFT, SHIFT + 1, (number, 2), generator=generator)
        turns_N = torch.rand(number, generator=generator) * math.radians(self.max_degrees)
        flips, shifts, turns = (part.to(device).split(AT_ONCE) for part in (flips_N, shifts_N2, turns_N))
        colour_C11 = (examples.mean_C11 * 255).round().to(torch.uint8)
        parts = zip(examples.images_NCHW.split(AT_ONCE), flips, shifts, turns, strict=True)
        images = [self.moved(part, flip, shift, turn, colour_C11) for part, flip, shift, turn in parts]
        return replace(examples, images_NCHW=torch.cat(images))

    def moved(
        self, images_NCHW: Tensor, flips_N: Tensor, shifts_N2: Tensor, turns_N: Tensor, colour_C11: Tensor
    ) -> Tensor:
        """Return the images; each pixel is looked up through the turn, the crop and the flip at once."""
        number, channels, height, width = images_NCHW.shape
        device = images_NCHW.device
        y, x = torch.meshgrid(torch.arange(height, device=device), torch.arange(width, device=device), indexing="ij")
        rows, columns = turned(y, x, turns_N)
        empty = (rows < 0) | (rows >= height) | (columns < 0) | (columns >= width)
        rows, columns = rows + shifts_N2[:, 0, None, None], columns + shifts_N2[:, 1, None, None]
        black = (rows < 0) | (rows >= height) | (columns < 0) | (columns >= width)
        rows, columns = mirrored(rows, height), mirrored(columns, width)
        columns = torch.where(flips_N[:, None, None], width - 1 - columns, columns)
        places = (rows * width + columns).view(number, 1, -1).expand(-1, channels, -1)
        taken = images_NCHW.flatten(2).gather(2, places).view_as(images_NCHW)
        if self.padding == "black":
            taken = taken.masked_fill(black[:, None], 0)
        return torch.where(empty[:, None], colour_C11, taken)


def turned(y_HW: Tensor, x_HW: Tensor, turns_N: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows and columns that lie at each pixel after a turn about the centre."""
    height, width = y_HW.shape
    up, right = y_HW - (height - 1) / 2, x_HW - (width - 1) / 2
    cos, sin = turns_N.cos()[:, None, None], turns_N.sin()[:, None, None]
    rows, columns = right * sin + up * cos, right * cos - up * sin
    return (rows + (height - 1) / 2).round().long(), (columns + (width - 1) / 2).round().long()


def mirrored(places: Tensor, size: int) -> Tensor:
    """Return places outside the image as those that a mirror at its edge shows, which does not repeat the edge."""
    last = size - 1
    return (last - (last - places.abs()).abs()).clamp(min=0)  # at 0 if a small image ends behind the mirror, too
