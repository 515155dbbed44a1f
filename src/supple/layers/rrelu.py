"""Randomised leaky ReLU (Xu et al. 2015): torch's own, drawing from the mask stream where there is one."""

import torch
from torch import Tensor, nn

from supple.layers.fx_leaf import call_of, is_traced
from supple.mask_stream import CURRENT, becomes_graph


class RReLU(nn.RReLU):
    """Negative slopes drawn per element from U(lower, upper); in evaluation their mean."""

    def forward(self, x: Tensor) -> Tensor:
        if is_traced(self, x):
            return call_of(self, x)
        if not self.training or becomes_graph(x) or CURRENT.generator is None:
            return super().forward(x)
        # What F.rrelu calls; it alone takes a generator. It fills the noise as if it were contiguous, and its backward
        # reads the noise by its strides.
        noise = torch.empty_like(x, memory_format=torch.contiguous_format)
        rrelu = torch.ops.aten.rrelu_with_noise_ if self.inplace else torch.ops.aten.rrelu_with_noise
        return rrelu(x, noise, self.lower, self.upper, True, CURRENT.generator)
