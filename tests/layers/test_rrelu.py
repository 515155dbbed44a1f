"""RReLU's gradient is the slope that was drawn, for every layout of the input, with and without a mask stream."""

import contextlib

import pytest
import torch
from torch import Tensor, nn

from supple.layers import RReLU
from supple.random import mask_stream

LOWER, UPPER = 0.1, 0.4
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
STREAMS = pytest.mark.parametrize("streamed", [True, False], ids=["stream", "default"])


LAYOUTS = {
    "channels_last": lambda: torch.randn(3, 8, 5, 6).to(memory_format=torch.channels_last),
    "channels_last_3d": lambda: torch.randn(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d),
    "expanded": lambda: torch.randn(4, 1, 5).expand(4, 3, 5),
    "one": lambda: torch.randn(()),
    "empty": lambda: torch.randn(0, 8, 5, 6).to(memory_format=torch.channels_last),
}


def forward(layer: RReLU, x: Tensor, *, streamed: bool) -> Tensor:
    generator = torch.Generator(x.device).manual_seed(3)
    with mask_stream(generator) if streamed else contextlib.nullcontext():
        return layer(x)


@DEVICES
@STREAMS
@DTYPES
@pytest.mark.parametrize("inplace", [False, True], ids=["", "inplace"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradient_is_the_slope_that_was_drawn(layout, inplace, dtype, streamed, device):
    leaf = LAYOUTS[layout]().to(device, dtype).detach().requires_grad_()
    x = leaf * 1.0 if inplace else leaf
    before = x.detach().clone()
    y = forward(RReLU(LOWER, UPPER, inplace), x, streamed=streamed)
    grad = torch.randn(y.shape).to(y)
    (got,) = torch.autograd.grad(y, leaf, grad)
    slope, negative = torch.where(before < 0, y.detach().double() / before.double(), 1.0), before < 0
    # The slope, the output and the gradient are each rounded once to the dtype.
    rounding = 2 * torch.finfo(dtype).eps
    assert (slope[negative] >= LOWER * (1 - rounding)).all()
    assert (slope[negative] <= UPPER * (1 + rounding)).all()
    assert len(slope[negative].unique()) >= negative.sum() / 10
    torch.testing.assert_close(got.double(), slope * grad.double(), rtol=rounding, atol=0.0)


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
