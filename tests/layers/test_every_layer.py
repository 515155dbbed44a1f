"""What every stochastic activation promises: dtypes, layouts, special values, in-place forms, compilers, exporters."""

import copy

import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from supple import AID, CReLU, DropReLU, Fourier, IntervalDropout, ReLUDropout
from written import holding

NAN, INF = float("nan"), float("inf")
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
# Inductor hands torch's own path to the C++ compiler unquoted, so under a path with spaces it cannot compile anything.
BACKEND = "aot_eager" if " " in torch.__file__ else "inductor"


def layers(*, inplace: bool = False) -> list[nn.Module]:
    return [
        AID(0.7, inplace=inplace),
        IntervalDropout((-1.0, 0.5), (0.2, 0.9, 0.4), inplace=inplace),
        DropReLU(0.7, inplace=inplace),
        ReLUDropout(0.4, inplace=inplace),
    ]


@holding(lambda: {"layers": nn.ModuleList(layers())})
class SideBySide(nn.Module):
    """All four on one input, so that one compilation or export serves them all."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(layer(x) for layer in self.layers)


NAMES = [type(layer).__name__ for layer in layers()]
MODES = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])


@pytest.fixture(params=range(len(NAMES)), ids=NAMES)
def layer(request: pytest.FixtureRequest) -> nn.Module:
    return layers()[request.param]


@pytest.fixture(params=range(len(NAMES)), ids=NAMES)
def inplace_layer(request: pytest.FixtureRequest) -> nn.Module:
    return layers(inplace=True)[request.param]


def scale(layer: nn.Module) -> float:
    return 1.0 / (1.0 - layer.drop_positive) if isinstance(layer, ReLUDropout) else 1.0


def seeded(layer: nn.Module, x: Tensor, *, seed: int = 1) -> Tensor:
    torch.manual_seed(seed)
    return layer(x)


# Values and gradients


def test_eval_draws_nothing_and_repeats_itself(layer):
    x, before = torch.randn(100), torch.get_rng_state()
    layer.eval()
    assert torch.equal(layer(x), layer(x))
    assert torch.equal(before, torch.get_rng_state())


@MODES
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_special_values_survive_with_their_sign_or_are_dropped_to_zero(layer, training, dtype):
    info = torch.finfo(dtype)
    x = torch.tensor([NAN, INF, -INF, info.smallest_normal / 2, info.max / 2, -info.max / 2], dtype=dtype)
    nan, up, down, *finite = layer.train(training)(x.expand(300, 6)).unbind(1)
    assert nan.isnan().all()
    assert set(up.tolist()) <= {INF, 0.0}
    assert set(down.tolist()) <= {-INF, 0.0}
    assert all(y.isfinite().all() and (y * value.sign() >= 0).all() for y, value in zip(finite, x[3:], strict=True))
    assert all(y.any() for y in finite[:2])


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8], ids=str)
@pytest.mark.parametrize("layer", [*layers(), CReLU(), Fourier()], ids=lambda layer: type(layer).__name__)
def test_integers_are_refused_with_a_way_out(layer, dtype):
    message = rf"^{type(layer).__name__} needs a floating-point tensor; got {dtype}\. Convert with x\.float\(\)\.$"
    for training in (True, False):
        with pytest.raises(TypeError, match=message):
            layer.train(training)(torch.ones(2, 3, dtype=dtype))


@MODES
@pytest.mark.parametrize("shape", [(0,), (2, 0, 3), (1,), ()], ids=str)
def test_empty_single_and_zero_dimensional_tensors_pass(layer, training, shape):
    x = torch.full(shape, 2.0, requires_grad=True)
    y = layer.train(training)(x)
    y.sum().backward()
    assert y.shape == x.shape == x.grad.shape


# Memory and layout


@MODES
def test_layout_is_that_of_relu(layer, training):
    layer.train(training)
    image = torch.randn(2, 4, 3, 5)
    for x in (image.to(memory_format=torch.channels_last), image.transpose(1, 3), image[:, ::2]):
        x = x.detach().requires_grad_()
        y = layer(x)
        y.backward(torch.ones_like(y))
        assert y.stride() == torch.relu(x).stride()
        assert torch.equal(y[y != 0].sign(), x[y != 0].sign())
        assert x.grad.shape == x.shape


@MODES
def test_inplace_returns_its_input_with_the_same_values_and_gradients(inplace_layer, training):
    plain = copy.deepcopy(inplace_layer).train(training)
    plain.inplace = False
    source = torch.randn(1000, requires_grad=True)
    expected = seeded(plain, source * 2.0)
    (expected_grad,) = torch.autograd.grad(expected.square().sum(), source)
    x = source * 2.0
    y = seeded(inplace_layer.train(training), x)
    y.square().sum().backward()
    assert y is x
    assert torch.equal(y, expected)
    assert torch.equal(source.grad, expected_grad)


@MODES
def test_inplace_works_through_a_view(inplace_layer, training):
    source = torch.randn(1000, requires_grad=True)
    whole = source * 1.0
    half = whole[500:]
    assert inplace_layer.train(training)(half) is half
    assert torch.equal(whole[500:], half)
    whole.sum().backward()
    assert torch.equal(source.grad[:500], torch.ones(500))
    torch.testing.assert_close(source.grad[500:] * source.detach()[500:], half.detach())


@MODES
def test_inplace_refuses_a_leaf_and_leaves_it_alone_as_relu_does(inplace_layer, training):
    for layer in (inplace_layer.train(training), nn.ReLU(inplace=True)):
        leaf = torch.randn(100, requires_grad=True)
        before = leaf.detach().clone()
        for part in (leaf, leaf[:50]):
            with pytest.raises(RuntimeError, match="leaf Variable that requires grad is being used in an in-place op"):
                layer(part)
        assert torch.equal(leaf, before)
        with torch.no_grad():
            assert torch.equal(layer(leaf), leaf)
        assert not torch.equal(leaf, before)


@MODES
def test_inplace_refuses_memory_that_is_shared_between_elements(inplace_layer, training):
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        inplace_layer.train(training)(torch.randn(1).expand(3))


# Mixed precision, compilers, exporters


def test_autocast_runs_in_bfloat16_and_trains_float32_weights(layer):
    first, second = nn.Linear(20, 30), nn.Linear(30, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = first(torch.randn(40, 20))
        h = layer(z)
        loss = second(h).float().square().mean()
    loss.backward()
    assert h.dtype == torch.bfloat16
    assert torch.equal(h[h != 0], (z * scale(layer))[h != 0])
    assert first.weight.grad.dtype == torch.float32
    assert first.weight.grad.any()


@MODES
def test_compiled_layers_equal_eager_ones_with_one_seed(training):
    net = SideBySide().train(training)
    compiled = torch.compile(net, fullgraph=True, backend=BACKEND)
    # Masks follow the memory, and what torch 2.6 compiles makes an op's input contiguous.
    keeps_order = hasattr(torch.Tag, "needs_exact_strides")
    x = torch.randn(4, 6, 5, 7).to(memory_format=torch.channels_last if keeps_order else torch.contiguous_format)
    results = []
    for forward in (net, compiled):
        leaf = x.clone().requires_grad_()
        torch.manual_seed(1)
        outputs = forward(leaf)
        sum((1.0 + i) * y.square().sum() for i, y in enumerate(outputs)).backward()
        results.append([*outputs, leaf.grad])
    for got, expected in zip(*results, strict=True):
        torch.testing.assert_close(got, expected)
        assert torch.equal(got == 0, expected == 0)
        assert got.stride() == expected.stride()


def test_compiled_inplace_layer_overwrites_its_input():
    layer = AID(0.7, inplace=True)
    x = torch.randn(1000)
    expected = seeded(AID(0.7), x)
    torch.manual_seed(1)
    y = torch.compile(layer, fullgraph=True, backend="aot_eager")(x)
    assert torch.equal(x, expected)
    assert torch.equal(y, expected)


@pytest.mark.filterwarnings("ignore")  # of onnxscript and torch.onnx about themselves
@pytest.mark.parametrize("dynamo", [True, False], ids=["dynamo", "torchscript"])
def test_onnx_model_equals_eval_mode(tmp_path, dynamo):
    net = SideBySide().eval()
    path = tmp_path / "layers.onnx"
    torch.onnx.export(net, (torch.randn(3, 50),), str(path), input_names=["x"], dynamo=dynamo, verbose=False)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    x = torch.randn(3, 50) * 2
    x[0, :6] = torch.tensor([0.0, -0.0, 0.5, -1.0, INF, NAN])
    for got, expected in zip(session.run(None, {"x": x.numpy()}), net(x), strict=True):
        torch.testing.assert_close(torch.from_numpy(got), expected, equal_nan=True)
