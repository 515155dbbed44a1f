"""The average-pool: torch's own in value and gradient, on every path."""

import pytest
import torch
from torch import nn

from supple_lab.models.base import AveragePool2d, MeanOfTiles

FORMATS = pytest.mark.parametrize(
    "memory_format", [torch.contiguous_format, torch.channels_last], ids=["first", "last"]
)
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]


def images(*shape, device="cpu", dtype=torch.float32):
    stream = torch.Generator().manual_seed(0)
    return torch.randn(*shape, generator=stream, dtype=dtype).to(device).requires_grad_()


def value_and_gradient(pool, x, weights):
    pooled = pool(x)
    (gradient,) = torch.autograd.grad((pooled * weights).sum(), x)
    return pooled, gradient


@FORMATS
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", [(2, 2), (3, 2)], ids=str)
def test_mean_of_tiles_is_torchs_average_pool(device, size, memory_format):
    x = images(2, 3, 12, 8, device=device).to(memory_format=memory_format)
    x = x.detach().requires_grad_()
    expected = nn.AvgPool2d(size)
    weights = images(*expected(x).shape, device=device).detach()
    ours = value_and_gradient(lambda inputs: MeanOfTiles.apply(inputs, size), x, weights)
    for one, other in zip(ours, value_and_gradient(expected, x, weights), strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_of_gradients_are_right():
    x = images(1, 2, 4, 6, dtype=torch.float64)
    assert torch.autograd.gradgradcheck(lambda inputs: MeanOfTiles.apply(inputs, (2, 3)).square(), (x,))


@pytest.mark.parametrize(
    ("arguments", "tile"),
    [
        ({"kernel_size": 2}, (2, 2)),
        ({"kernel_size": (2, 4)}, (2, 4)),
        ({"kernel_size": 3}, None),  # 8 is no multiple
        ({"kernel_size": 2, "stride": 1}, None),
        ({"kernel_size": 2, "padding": 1}, None),
        ({"kernel_size": 2, "divisor_override": 3}, None),
    ],
)
def test_only_windows_that_tile_are_upsampled(arguments, tile):
    assert AveragePool2d(**arguments).tile(torch.zeros(1, 1, 8, 8)) == tile


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("arguments", [{"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}])
def test_layer_is_torchs_layer(device, arguments):
    x = images(2, 3, 8, 8, device=device)
    ours, theirs = AveragePool2d(**arguments), nn.AvgPool2d(**arguments)
    weights = images(*theirs(x).shape, device=device).detach()
    for one, other in zip(value_and_gradient(ours, x, weights), value_and_gradient(theirs, x, weights), strict=True):
        torch.testing.assert_close(one, other)
