"""Site: what the units of one activation did, as sums over samples and positions that do not depend on batching.

z is the activation's input (after a norm, where there is one), h its output. A unit is a feature of a linear layer or
a channel of a convolution. CReLU and Fourier give h twice the width of z: unit i owns columns i and w + i, and its
magnitude is the mean over both.
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

# Rows kept for a rank per layer: enough to tell collapse from health. The singular values of 256 rows of 2,000 features
# take 13 ms on one CPU core, those of 512 rows 48 ms.
MAX_ROWS = 256
# Row n shows position n * STRIDE of its map, so that the rows walk over all positions; a prime shares no factor with
# common map sizes.
STRIDE = 7919


@dataclass(eq=False)
class Site:
    """One activation site and its sums; ``axis`` is where the units lie, counted from the end."""

    name: str  # of the activation module; its second call in one forward is "name#2"
    activation: nn.Module
    axis: int
    layer: str | None = None  # what most likely produced z: the first layer of its width since the last site
    num_values: int = 0  # values of z per unit: samples times positions
    num_outputs: int = 0  # values of h per column
    num_samples: int = 0
    num_positive_U: Tensor | None = None
    sum_magnitude_V: Tensor | None = None  # over the columns of h
    rows: list[Tensor] = field(default_factory=list)  # one position of each of the first samples' h

    def add_input(self, z: Tensor) -> None:
        """Count where z is positive."""
        num_positive_U = (z > 0).sum(others(z, self.axis)).double()
        self.num_positive_U = plus(self.num_positive_U, num_positive_U)
        self.num_values += z.numel() // max(1, z.shape[self.axis])

    def add_output(self, h: Tensor) -> None:
        """Sum up |h|, and keep rows of it while there is room."""
        self.sum_magnitude_V = plus(self.sum_magnitude_V, h.abs().sum(others(h, self.axis), dtype=torch.float64))
        self.num_outputs += h.numel() // max(1, h.shape[self.axis])
        if self.num_samples < MAX_ROWS:
            self.rows.append(sample_rows(h, self.axis, first=self.num_samples))
        self.num_samples += h.shape[0]

    @property
    def num_units(self) -> int:
        return 0 if self.num_positive_U is None else len(self.num_positive_U)

    @property
    def positive_share(self) -> Tensor:
        """q: how often each unit's z is above zero, over samples and positions."""
        assert self.num_positive_U is not None
        return self.num_positive_U.cpu() / self.num_values

    @property
    def magnitude(self) -> Tensor:
        """The mean of |h| of each unit; over both columns of a unit that owns two."""
        assert self.sum_magnitude_V is not None
        columns_V = self.sum_magnitude_V.cpu() / self.num_outputs
        expansion, rest = divmod(len(columns_V), self.num_units)
        # An activation that narrows (GLU) has fewer columns than inputs: its columns are scored as they are.
        return columns_V.view(expansion, -1).mean(0) if expansion > 1 and not rest else columns_V

    @property
    def kept_rows(self) -> Tensor:
        """The rows kept, at most MAX_ROWS."""
        return torch.cat(self.rows)


def others(values: Tensor, axis: int) -> list[int]:
    """All dimensions but that of the units."""
    return [dim for dim in range(values.dim()) if dim != axis % values.dim()]


def plus(total: Tensor | None, more: Tensor) -> Tensor:
    """The sum, where there may be none yet."""
    return more if total is None else total + more


def sample_rows(h: Tensor, axis: int, *, first: int) -> Tensor:
    """One position of each sample while there is room; a sample shows the same one however the data is split."""
    units_last = h.movedim(axis, -1)
    samples_R = torch.arange(min(h.shape[0], MAX_ROWS - first), device=h.device)
    positions = units_last.shape[1:-1]
    if not positions:
        return units_last[: len(samples_R)].clone()
    spots_R = (samples_R + first) * STRIDE % math.prod(positions)
    return units_last[(samples_R, *torch.unravel_index(spots_R, positions))]
