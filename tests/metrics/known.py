"""Networks whose pre-activations are their inputs, so that every number can be computed by hand."""

import torch
from torch import nn


def unit_net(width, activation, expansion=1):
    """z of the only hidden layer is the input itself."""
    first = nn.Linear(width, width, bias=False)
    nn.init.eye_(first.weight)
    return nn.Sequential(first, activation, nn.Linear(width * expansion, 1))


def channel_net(width, activation, expansion=1):
    """The same for channels: a 1 x 1 convolution that copies."""
    first = nn.Conv2d(width, width, 1, bias=False)
    with torch.no_grad():
        first.weight.copy_(torch.eye(width)[:, :, None, None])
    return nn.Sequential(first, activation, nn.Conv2d(width * expansion, 1, 1))
