"""What torch's transforms, compilers and exporters do with each activation: the table of docs/methods.md, cell by cell.

Expected derivatives come from the output alone: in float64 the slope of an element is y / x, whatever was drawn.
"""

import io
from collections.abc import Callable
from pathlib import Path

import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from supple import AID, CReLU, DropReLU, Fourier, IntervalDropout, ReLUDropout
from supple.layers import RReLU

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch.jit and torch.onnx about themselves

PAGE = Path(__file__).parent.parent.parent / "docs" / "methods.md"
COLUMNS = (
    "AID, IntervalDropout, DropReLU, ReLUDropout: training",
    "evaluation",
    "RReLU: training",
    "evaluation",
    "CReLU, Fourier",
)
TABLE = {
    "double backward": ("yes", "yes", "yes", "yes", "yes"),
    "`torch.func.vmap`": ('with `randomness="different"`', "yes", "no", "yes", "yes"),
    "`torch.func.grad`, `vjp`, `jacrev`": ("yes", "yes", "yes", "yes", "yes"),
    "`torch.func.jvp`, `torch.autograd.forward_ad`": ("yes", "yes", "yes", "yes", "yes"),
    "`torch.func.jacfwd`, `hessian`": ("yes", "yes", "no", "yes", "yes"),
    "`torch.jit.trace`": ("yes", "yes", "yes", "yes", "yes"),
    "`torch.jit.script`": ("no", "no", "no", "no", "yes"),
    "`torch.export`": ("yes", "yes", "yes", "yes", "yes"),
    "`torch.compile`": ("yes", "yes", "yes", "yes", "yes"),
    "ONNX": ("no", "yes", "no", "yes", "yes"),
}
LAYERS: dict[str, Callable[[], nn.Module]] = {
    "AID": lambda: AID(0.7),
    "IntervalDropout": lambda: IntervalDropout((-1.0, 0.5), (0.2, 0.7, 0.4)),
    "DropReLU": lambda: DropReLU(0.7),
    "ReLUDropout": lambda: ReLUDropout(0.4),
    "RReLU": lambda: RReLU(0.1, 0.4),
    "CReLU": CReLU,
    "Fourier": Fourier,
}
ROWS, WIDTH = 3, 8


def test_page_shows_the_table_that_is_tested_here():
    rows = [("", *COLUMNS), ("---",) * (1 + len(COLUMNS)), *((name, *cells) for name, cells in TABLE.items())]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows).replace("| ---", "|---").replace("--- |", "---|")
    assert table.replace(" |---", "|---") in PAGE.read_text()


def cells(*names: str) -> pytest.MarkDecorator:
    """Every activation in both modes, with what the table says of it in all of these rows."""
    made = []
    for layer in LAYERS:
        for training in (True, False):
            column = 4 if layer in ("CReLU", "Fourier") else (2 if layer == "RReLU" else 0) + (not training)
            (cell,) = {TABLE[name][column] for name in names}
            made.append(pytest.param(layer, training, cell, id=f"{layer}-{'train' if training else 'eval'}"))
    return pytest.mark.parametrize(("name", "training", "cell"), made)


def layer_of(name: str, training: bool) -> nn.Module:
    return LAYERS[name]().train(training)


def is_random(layer: nn.Module) -> bool:
    return layer.training and not isinstance(layer, (CReLU, Fourier))


def seeded(act: Callable, *arguments: object) -> Tensor:
    torch.manual_seed(1)
    return act(*arguments)


def inputs() -> Tensor:
    return torch.randn(ROWS, WIDTH, dtype=torch.float64)


def slopes(layer: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """dy/dx of every output, of the input in the same place of its half."""
    if isinstance(layer, CReLU):
        return torch.cat((x > 0, -(x < 0).double()), dim=1)
    return torch.cat((x.cos(), -x.sin()), dim=1) if isinstance(layer, Fourier) else y / x


def bends(layer: nn.Module, y: Tensor) -> Tensor:
    return -y if isinstance(layer, Fourier) else torch.zeros_like(y)


def folded(v: Tensor) -> Tensor:
    """What reaches an input: the sum over the outputs that depend on it."""
    return v.view(ROWS, -1, WIDTH).sum(1)


def jacobian(slope: Tensor) -> Tensor:
    whole = torch.zeros(*slope.shape, ROWS, WIDTH, dtype=torch.float64)
    for b in range(ROWS):
        for i in range(slope.shape[1]):
            whole[b, i, b, i % WIDTH] = slope[b, i]
    return whole


def cubes(layer: nn.Module) -> Callable[[Tensor], Tensor]:
    return lambda x: layer(x).pow(3).sum()


def gradient_of_cubes(layer: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return folded(3 * y**2 * slopes(layer, x, y))


def hessian_of_cubes(layer: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return folded(6 * y * slopes(layer, x, y) ** 2 + 3 * y**2 * bends(layer, y))


@cells("double backward")
def test_double_backward(name, training, cell):
    assert cell == "yes"
    layer, x = layer_of(name, training), inputs().requires_grad_()
    y = layer(x)
    (first,) = torch.autograd.grad(y.pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(second, hessian_of_cubes(layer, x.detach(), y.detach()))


@cells("`torch.func.vmap`")
def test_vmap(name, training, cell):
    layer, x = layer_of(name, training), torch.randn(1, 1, 200, dtype=torch.float64).expand(2, 1, 200)
    if cell == "yes":
        assert torch.equal(torch.func.vmap(layer)(x)[1], layer(x[1]))
        return
    with pytest.raises(RuntimeError, match="vmap"):
        torch.func.vmap(layer)(x)
    if cell == "no":
        with pytest.raises(RuntimeError, match="vmap"):
            torch.func.vmap(layer, randomness="different")(x)
        return
    first, second = torch.func.vmap(layer, randomness="different")(x)
    scale = 1.0 / 0.6 if isinstance(layer, ReLUDropout) else 1.0
    assert not torch.equal(first, second)
    assert ((first == 0) | (first == x[0] * scale)).all()


@cells("`torch.func.grad`, `vjp`, `jacrev`")
def test_reverse_mode(name, training, cell):
    assert cell == "yes"
    layer, x = layer_of(name, training), inputs()
    y = seeded(layer, x)
    slope = slopes(layer, x, y)
    torch.testing.assert_close(seeded(torch.func.grad(cubes(layer)), x), gradient_of_cubes(layer, x, y))
    output, pull = torch.func.vjp(layer, x)
    torch.testing.assert_close(pull(output)[0], folded(output * slopes(layer, x, output)))
    torch.testing.assert_close(seeded(torch.func.jacrev(layer), x), jacobian(slope))


@cells("`torch.func.jvp`, `torch.autograd.forward_ad`")
def test_forward_mode(name, training, cell):
    assert cell == "yes"
    layer, x, tangent = layer_of(name, training), inputs(), inputs()
    y, pushed = torch.func.jvp(layer, (x,), (tangent,))
    torch.testing.assert_close(pushed, slopes(layer, x, y) * tangent.repeat(1, y.shape[1] // WIDTH))
    with forward_ad.dual_level():
        y, pushed = forward_ad.unpack_dual(layer(forward_ad.make_dual(x, tangent)))
        torch.testing.assert_close(pushed, slopes(layer, x, y) * tangent.repeat(1, y.shape[1] // WIDTH))


@cells("`torch.func.jacfwd`, `hessian`")
def test_forward_mode_of_every_input(name, training, cell):
    layer, x = layer_of(name, training), inputs()
    acts = torch.func.jacfwd(layer), torch.func.hessian(cubes(layer))
    if cell == "no":
        for act in acts:
            with pytest.raises(RuntimeError, match="vmap"):
                act(x)
        return
    y = seeded(layer, x)
    torch.testing.assert_close(seeded(acts[0], x), jacobian(slopes(layer, x, y)))
    torch.testing.assert_close(seeded(acts[1], x), jacobian(hessian_of_cubes(layer, x, y)))


def check_made(made: Callable, layer: nn.Module) -> None:
    """What was made of the layer gives its values, draws again at every call, and has the gradient of what it drew."""
    x = inputs().requires_grad_()
    y = made(x)
    (gradient,) = torch.autograd.grad(y.pow(3).sum(), x)
    torch.testing.assert_close(gradient, gradient_of_cubes(layer, x.detach(), y.detach()))
    if is_random(layer):
        assert not torch.equal(made(x), y)
        assert torch.equal(seeded(made, x), seeded(layer, x))
    else:
        torch.testing.assert_close(y, layer(x))


@cells("`torch.jit.trace`")
def test_jit_trace(name, training, cell):
    assert cell == "yes"
    layer = layer_of(name, training)
    check_made(torch.jit.trace(layer, inputs(), check_trace=False), layer)


@cells("`torch.jit.script`")
def test_jit_script(name, training, cell):
    layer = layer_of(name, training)
    if cell == "yes":
        check_made(torch.jit.script(layer), layer)
    else:
        with pytest.raises(RuntimeError):
            torch.jit.script(layer)


@cells("`torch.export`")
def test_export(name, training, cell):
    assert cell == "yes"
    layer = layer_of(name, training)
    check_made(torch.export.export(layer, (inputs(),)).module(), layer)


@pytest.mark.slow
@cells("`torch.compile`")
def test_compile(name, training, cell):
    assert cell == "yes"
    layer = layer_of(name, training)
    check_made(torch.compile(layer, fullgraph=True, backend="aot_eager"), layer)


@pytest.mark.slow
@cells("ONNX")
def test_onnx(name, training, cell):
    layer, x = layer_of(name, training), inputs().float()
    if cell == "no":
        with pytest.raises(torch.onnx.OnnxExporterError):
            torch.onnx.export(layer, (x,), dynamo=True, verbose=False)
        return
    file = io.BytesIO()
    torch.onnx.export(layer, (x,), dynamo=True, verbose=False).save(file)
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(got), layer(x))
