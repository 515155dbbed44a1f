"""The average-pool: torch's own in value and gradient, on every path."""

import io
import math

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from supple import AID, convert
from supple.convert import pools
from supple.convert.pools import AveragePool2d, MeanOfTiles, mean_pool2d
from written import holding

FORMATS = pytest.mark.parametrize(
    "memory_format", [torch.contiguous_format, torch.channels_last], ids=["first", "last"]
)
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
OTHERS = [
    {"kernel_size": 3},  # 8 is no multiple
    {"kernel_size": 3, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    {"kernel_size": 2, "stride": (2, 1)},
    {"kernel_size": 2, "padding": (0, 1)},
]
DIVIDED = {"kernel_size": 2, "divisor_override": 3}
TILES = [
    ({"kernel_size": 2}, (2, 2)),
    ({"kernel_size": (2, 4)}, (2, 4)),
    ({"kernel_size": [2, 2], "stride": (2, 2)}, (2, 2)),
    ({"kernel_size": (2,), "stride": 2}, (2, 2)),
    ({"kernel_size": 4, "ceil_mode": True, "count_include_pad": False}, (4, 4)),
]
ALL = [*(arguments for arguments, _ in TILES), *OTHERS, DIVIDED]


def images(*shape, device="cpu", dtype=torch.float32):
    stream = torch.Generator().manual_seed(0)
    return torch.randn(*shape, generator=stream, dtype=dtype).to(device).requires_grad_()


def value_and_gradient(pool, x, weights):
    pooled = pool(x)
    (gradient,) = torch.autograd.grad((pooled * weights).sum(), x)
    return pooled, gradient


def tile(x, *, kernel_size, stride=None, padding=0, **_):
    return pools.tile_of(x, kernel_size, stride or kernel_size, padding)


@FORMATS
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", [(2, 2), (1, 4), (3, 2), (4, 8)], ids=str)
def test_mean_of_tiles_is_torchs_average_pool_bit_for_bit(device, size, memory_format, dtype):
    x = images(2, 3, 12, 8, device=device, dtype=dtype).to(memory_format=memory_format)
    x = x.detach().requires_grad_()
    expected = nn.AvgPool2d(size)
    weights = images(*expected(x).shape, device=device, dtype=dtype).to(memory_format=memory_format).detach()
    ours = value_and_gradient(lambda inputs: MeanOfTiles.apply(inputs, size), x, weights)
    for one, other in zip(ours, value_and_gradient(expected, x, weights), strict=True):
        assert one.stride() == other.stride()
        if device == "cuda" and math.prod(size) == 6:  # a GPU multiplies by the rounded inverse of 6
            torch.testing.assert_close(one, other)
        else:
            assert torch.equal(one, other)


def test_derivatives_by_transforms_are_those_of_torchs_pool():
    def hessian(pool):
        return torch.func.hessian(lambda inputs: (pool(inputs) ** 3).sum())(x)

    x = images(1, 2, 4, 4, dtype=torch.float64)
    torch.testing.assert_close(hessian(lambda inputs: MeanOfTiles.apply(inputs, (2, 2))), hessian(nn.AvgPool2d(2)))


@pytest.mark.parametrize(("arguments", "size"), [*TILES, *((others, None) for others in OTHERS)], ids=str)
def test_only_windows_that_tile_a_gpus_images_are_tiles(arguments, size):
    with FakeTensorMode():  # a GPU's tensors, without their memory
        x = torch.empty(2, 3, 8, 8, device="cuda", requires_grad=True)
        assert tile(x, **arguments) == size
        for shape, device, trained in (((3, 8, 8), "cuda", True), (x.shape, "cuda", False), (x.shape, "cpu", True)):
            assert tile(torch.empty(shape, device=device, requires_grad=trained), **arguments) is None
        with torch.no_grad():
            assert tile(x, **arguments) is None


@pytest.mark.parametrize("shape", [(1, 1, 8, 9), (1, 1, 9, 8)], ids=str)
def test_images_with_a_rest_are_not_tiled(shape):
    with FakeTensorMode():
        assert tile(torch.empty(shape, device="cuda", requires_grad=True), kernel_size=2) is None


def test_a_gpus_images_are_not_tiled_while_a_graph_is_made():
    found = []
    with FakeTensorMode():
        gpu_images = torch.empty(2, 3, 8, 8, device="cuda", requires_grad=True)

    class Asking(nn.Module):
        def forward(self, x):
            found.append(tile(gpu_images, kernel_size=2))
            return x + 1

    x = torch.zeros(1)
    for make in (
        lambda model: model(x),
        lambda model: torch.jit.trace(model, x, check_trace=False),
        lambda model: torch.export.export(model, (x,), strict=False),
    ):
        make(Asking())
    assert found == [(2, 2), None, None]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("arguments", ALL, ids=str)
def test_layer_is_torchs_layer(device, arguments):
    x = images(2, 3, 8, 8, device=device)
    ours, theirs = AveragePool2d(**arguments), nn.AvgPool2d(**arguments)
    weights = images(*theirs(x).shape, device=device).detach()
    for one, other in zip(value_and_gradient(ours, x, weights), value_and_gradient(theirs, x, weights), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("device", DEVICES)
def test_an_empty_batch_has_an_empty_gradient(device):
    x = torch.zeros(0, 3, 8, 8, device=device, requires_grad=True)
    assert torch.autograd.grad(MeanOfTiles.apply(x, (2, 2)).sum(), x)[0].shape == x.shape


@holding(lambda: {"pool": nn.MaxPool2d(2)})
class FunctionalNet(nn.Module):
    def forward(self, x):
        return F.max_pool2d(self.pool(torch.relu(x)), (2, 4))


def test_a_converted_model_has_it_as_a_module_and_as_a_function(monkeypatch):
    model, x = convert(FunctionalNet(), AID(p=0.9)).eval(), images(2, 3, 8, 16)
    assert type(model.pool) is AveragePool2d
    expected = value_and_gradient(model, x, 2.0)
    monkeypatch.setattr(pools, "tile_of", lambda _, size, stride, *__: pools.pair(size) if size == stride else None)
    y = model(x)  # while it lives, so do its nodes
    last, first = y.grad_fn, y.grad_fn.next_functions[0][0]
    assert [type(node).__name__ for node in (last, first)] == ["MeanOfTilesBackward"] * 2
    for one, other in zip(value_and_gradient(model, x, 2.0), expected, strict=True):
        assert torch.equal(one, other)


def test_a_divisor_of_ones_own_is_left_to_torch(monkeypatch):
    monkeypatch.setattr(pools, "tile_of", lambda *_: (2, 2))
    x = images(1, 1, 4, 4)
    assert torch.equal(AveragePool2d(**DIVIDED)(x), F.avg_pool2d(x, **DIVIDED))


@pytest.mark.parametrize("device", DEVICES)
def test_graphs_hold_torchs_average_pool(device):
    model, x = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), AveragePool2d(2)).to(device), images(1, 1, 4, 4).to(device)
    exported = torch.export.export(model, (x,)).module()
    assert "avg_pool2d" in exported.code
    file = io.BytesIO()
    torch.jit.save(torch.jit.trace(model, x), file)
    file.seek(0)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for other in (exported, torch.jit.load(file), compiled):
        assert torch.equal(other(x), model(x))
        gradients = (torch.autograd.grad(one(x).square().sum(), x)[0] for one in (other, model))
        torch.testing.assert_close(*gradients)


def test_a_traced_model_calls_it_as_torchs_own_pool_and_alone_it_is_one():
    model = nn.Sequential(nn.Identity(), AveragePool2d(2))
    assert [node.op for node in fx.symbolic_trace(model).graph.nodes][-2] == "call_module"
    alone = fx.symbolic_trace(AveragePool2d(2))
    assert any(node.target is F.avg_pool2d for node in alone.graph.nodes)
    x = images(1, 1, 4, 4)
    for traced in (fx.symbolic_trace(model), alone):
        assert torch.equal(traced(x), F.avg_pool2d(x, 2))


def test_the_functions_defaults_are_those_of_torch():
    x = images(1, 1, 5, 5)
    assert torch.equal(mean_pool2d(x, 2), F.avg_pool2d(x, 2))
    assert torch.equal(mean_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1))
