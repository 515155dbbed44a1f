"""RReLU beside torch's, and in a compiled graph."""

import torch
from torch import nn

from supple.layers import RReLU
from supple.random import mask_stream

LOWER, UPPER = 0.1, 0.4


def test_values_and_defaults_are_those_of_torch():
    x = torch.randn(1000)
    torch.manual_seed(1)
    expected = nn.RReLU(LOWER, UPPER)(x)
    torch.manual_seed(1)
    assert torch.equal(RReLU(LOWER, UPPER)(x), expected)
    assert (RReLU().lower, RReLU().upper, RReLU().inplace) == (nn.RReLU().lower, nn.RReLU().upper, False)


def test_one_whole_graph_is_made_of_it_inside_a_mask_stream_too():
    layer, x = torch.compile(RReLU(LOWER, UPPER), backend="eager", fullgraph=True), torch.randn(100)
    with mask_stream(torch.Generator().manual_seed(3)):
        y = layer(x)
    slope = (y / x)[x < 0]
    assert ((slope > LOWER) & (slope < UPPER)).all()
    assert torch.equal(y[x >= 0], x[x >= 0])
