"""Algorithms 1 and 2 of the paper in plain torch: slow, short, and the judge of every faster kernel."""

import torch
from torch import Tensor

from supple.kernels.base import Intervals, Kernel


def interval_of(x: Tensor, edges: tuple[float, ...]) -> Tensor:
    """Index of the [l, u) interval each element lies in; an element equal to an edge belongs to the right."""
    return torch.bucketize(x.double(), torch.tensor(edges, dtype=torch.float64, device=x.device), right=True)


def rate_of(x: Tensor, edges: tuple[float, ...], rates: tuple[float, ...]) -> Tensor:
    """The rate, in float64, of each element's interval."""
    return torch.tensor(rates, dtype=torch.float64, device=x.device)[interval_of(x, edges)]


class ReferenceKernel(Kernel):
    """Draws one float64 uniform per element, so that a rate is exact to 53 bits in every dtype."""

    name = "reference"

    def drop(self, x: Tensor, intervals: Intervals, *, generator: torch.Generator | None, out: Tensor | None) -> Tensor:
        uniform = torch.rand(x.shape, dtype=torch.float64, device=x.device, generator=generator)
        kept = (uniform >= rate_of(x, intervals.edges, intervals.drop)) | x.isnan()
        # Select, never multiply by the mask: a dropped infinity is 0, not NaN.
        y = torch.where(kept, x * intervals.scale, torch.zeros((), dtype=x.dtype, device=x.device))
        return y if out is None else out.copy_(y)

    def gate(self, grad: Tensor, y: Tensor, scale: float) -> Tensor:
        return torch.where(y != 0, grad * scale, torch.zeros((), dtype=grad.dtype, device=grad.device))
