"""Algorithms 1 and 2 of the paper in plain torch: slow, short, and the judge of every faster kernel."""

import torch
from torch import Tensor

from supple.kernels.base import Intervals, Kernel


def rate_of(x: Tensor, edges: tuple[float, ...], rates: tuple[float, ...]) -> Tensor:
    """The rate, in float64, of the [l, u) interval each element lies in; an element equal to an edge goes right."""
    # torch rounds the edge to x's dtype before it compares, so that a 0.7 typed as edge equals a 0.7 typed as value.
    rate = torch.full_like(x, rates[0], dtype=torch.float64)
    for edge, right in zip(edges, rates[1:], strict=True):
        rate.masked_fill_(x >= edge, right)
    return rate


class ReferenceKernel(Kernel):
    """Draws one float64 uniform per element, so that a rate is exact to 53 bits in every dtype."""

    name = "reference"

    def drop(self, x: Tensor, intervals: Intervals, *, generator: torch.Generator | None, out: Tensor | None) -> Tensor:
        return self.drop_by(torch.empty_like(x, dtype=torch.float64).uniform_(generator=generator), x, intervals, out)

    def drop_by(self, uniform: Tensor, x: Tensor, intervals: Intervals, out: Tensor | None) -> Tensor:
        """As ``drop``, by these uniform numbers."""
        kept = (uniform >= rate_of(x, intervals.edges, intervals.drop)) | x.isnan()
        # Select, never multiply by the mask: a dropped infinity is 0, not NaN.
        y = torch.where(kept, x * intervals.scale, torch.zeros((), dtype=x.dtype, device=x.device))
        if intervals.slope_at_zero(x.dtype) != 0.0:
            y = (y + 0.0).masked_fill_(x == 0, -0.0)  # -0 + 0 is +0: a product that underflows is no mark
        return y if out is None else out.copy_(y)

    def gate(self, grad: Tensor, y: Tensor, scale: float, at_zero: float = 0.0) -> Tensor:
        gated = grad.clone().mul_(scale).masked_fill_(y == 0, 0.0)  # a ZeroTensor's product would be one, and immutable
        if at_zero != 0.0:
            gated += grad.clone().mul_(at_zero).masked_fill_((y != 0) | ~y.signbit(), 0.0)
        return gated
