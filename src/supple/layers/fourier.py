"""Deep Fourier features (Lewandowski et al. 2024): sine and cosine side by side, a near-linear network in disguise."""

import torch
from torch import Tensor, nn

from supple.functional import require_floating_point


class Fourier(nn.Module):
    """[sin(x), cos(x)] along dimension 1, features of a linear layer and channels of a convolution alike."""

    expansion = 2

    def forward(self, x: Tensor) -> Tensor:
        if not torch.jit.is_scripting():
            require_floating_point(x, "Fourier")
        return torch.cat((torch.sin(x), torch.cos(x)), dim=1)
