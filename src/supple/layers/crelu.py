"""Concatenated ReLU (Abbas et al. 2023): both halves of the input side by side, so that no unit can die."""

import torch
from torch import Tensor, nn

from supple.functional import require_floating_point


class CReLU(nn.Module):
    """[relu(x), relu(-x)] along dimension 1, features of a linear layer and channels of a convolution alike."""

    expansion = 2

    def forward(self, x: Tensor) -> Tensor:
        if not torch.jit.is_scripting():
            require_floating_point(x, "CReLU")
        return torch.cat((torch.relu(x), torch.relu(-x)), dim=1)
