"""Randomised leaky ReLU (Xu et al. 2015): the slopes that torch draws, from the mask stream where there is one."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from supple.fields import checked
from supple.layers.fx_leaf import call_of, is_traced
from supple.mask_stream import becomes_graph, source_of_masks


class RReLU(nn.RReLU):
    """Negative slopes drawn per element from U(lower, upper); in evaluation their mean."""

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        checked(inplace, bool, "RReLU.inplace")
        super().__init__(checked(lower, float, "RReLU.lower"), checked(upper, float, "RReLU.upper"), inplace)

    def forward(self, x: Tensor) -> Tensor:
        if is_traced(self, x):
            return call_of(self, x)
        if not self.training:  # F.rrelu gives this too, but vmap, forward mode and ONNX do not know it
            return F.leaky_relu(x, (self.lower + self.upper) / 2, self.inplace)
        if becomes_graph(x) or torch.jit.is_tracing():
            return super().forward(x)
        # What F.rrelu calls, which alone takes a generator. It fills the slopes as if they were contiguous. Its own
        # backward would keep them before they are filled, and torch.utils.checkpoint stop there and read zeros.
        slopes = torch.empty_like(x, memory_format=torch.contiguous_format)
        with torch.no_grad():
            torch.ops.aten.rrelu_with_noise(x, slopes, self.lower, self.upper, True, source_of_masks(None))
        return x.mul_(slopes) if self.inplace else x * slopes
