"""The autograd node in C++ and the path in Python are one operator: the same masks, gradients and refusals."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import laws
import pytest
import torch
from torch import Tensor
from torch._dynamo import compiled_autograd
from torch.autograd import forward_ad

from supple import functional as SF
from supple import kernels
from supple.kernels import node as node_file
from supple.kernels.cpu import CpuKernel

CPU = kernels.kernel_for(torch.device("cpu"))
if not isinstance(CPU, CpuKernel):
    pytest.skip("needs the fused CPU kernel", allow_module_level=True)
pytestmark = pytest.mark.slow  # a compiler works for half a minute first
ACTIVATIONS: dict[str, Callable[..., Tensor]] = {
    "AID": lambda x, **how: SF.aid(x, 0.9, **how),
    "DropReLU": lambda x, **how: SF.drop_relu(x, 0.7, **how),
    "Dropout": lambda x, **how: SF.relu_dropout(x, 0.3, **how),
    "five intervals": lambda x, **how: SF.interval_dropout(x, (-1.0, 0.0, 0.5), (0.1, 0.9, 0.5, 0.0), **how),
    "0 inside": lambda x, **how: SF.interval_dropout(x, (-1.0, 0.5), (0.1, 0.9, 0.5), **how),
}
TENSORS: dict[str, Callable[[], Tensor]] = {
    "flat": lambda: torch.randn(5003),
    "one": lambda: torch.randn(1),
    "empty": lambda: torch.randn(0, 3),
    "scalar": lambda: torch.randn(()),
    "channels_last": lambda: torch.randn(4, 5, 6, 7).contiguous(memory_format=torch.channels_last),
    "transposed": lambda: torch.randn(33, 65).t(),
    "strided": lambda: torch.randn(64, 130)[:, ::2],
    "unaligned": lambda: torch.randn(5003)[1:],
    "large": lambda: torch.randn(2**17 + 3),
}


@pytest.fixture(scope="module", autouse=True)
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The node that is built, else one built here."""
    with pytest.MonkeyPatch.context() as patch:
        if CPU.node is None:
            if shutil.which("c++") is None:
                pytest.skip("needs a C++ compiler")
            built = tmp_path_factory.mktemp("node") / "node.so"
            patch.setattr(node_file, "library", lambda: built)
            node_file.build_node()
            node_file.load_node.cache_clear()
            module, why = node_file.load_node()
            assert module is not None, why
            patch.setattr(CPU, "node", module)
        yield


@pytest.fixture(params=["in C++", "in Python"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "in Python":
        monkeypatch.setattr(CPU, "node", None)
    return request.param


def results(activation: Callable[..., Tensor], x: Tensor, *, inplace: bool = False) -> list[Tensor]:
    """Output and gradient of two calls, and where the random stream is afterwards."""
    leaf = x.detach().requires_grad_()
    torch.manual_seed(7)
    first, second = (activation(leaf * 1 if inplace else leaf, inplace=inplace) for _ in range(2))
    grads = torch.autograd.grad([first, second], leaf, [torch.full_like(x, 3.0), torch.full_like(x, -torch.inf)])
    return [first.detach(), second.detach(), *grads, torch.get_rng_state()]


@pytest.mark.parametrize("dtype", laws.DTYPES, ids=str)
@pytest.mark.parametrize("tensor", TENSORS.values(), ids=TENSORS)
@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_both_paths_give_one_result(activation, tensor, dtype, monkeypatch):
    x = tensor().to(dtype)
    for inplace in (False, True):
        in_node = results(activation, x, inplace=inplace)
        with monkeypatch.context() as patch:
            patch.setattr(CPU, "node", None)
            in_python = results(activation, x, inplace=inplace)
        for one, other in zip(in_node, in_python, strict=True):
            assert one.stride() == other.stride()
            torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def test_the_node_serves_all_but_laws_with_a_slope_at_zero():
    for x in (torch.randn(64), torch.randn(4, 5, 6, 7).contiguous(memory_format=torch.channels_last)):
        in_python = {
            name: type(activation(x.requires_grad_()).grad_fn).__name__.startswith("PlainIntervalDropout")
            for name, activation in ACTIVATIONS.items()
        }
        assert in_python == {name: name == "0 inside" for name in ACTIVATIONS}


def test_nan_stays_and_a_gradient_is_selected_not_multiplied(path):
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0] * 500, requires_grad=True)
    y = SF.aid(x, 0.5)
    (grad,) = torch.autograd.grad(y, x, torch.full_like(x, float("inf")))
    assert y[0::6].isnan().all()
    assert not y[1::6].isnan().any()
    assert torch.equal(grad == float("inf"), y != 0)
    assert not grad.isnan().any()


def test_the_gradient_of_a_zero_tensor_is_zero(path):
    x = torch.randn(4096, requires_grad=True)
    SF.aid(x).backward(torch._efficientzerotensor((4096,)))
    assert torch.equal(x.grad, torch.zeros(4096))
    assert not SF.aid(torch._efficientzerotensor((4096,))).any()


def test_backward_keeps_the_output_alone(path):
    kept = []
    x = torch.randn(4096, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        y = SF.aid(x)
    assert {t.data_ptr() for t in kept} == {y.data_ptr()}


def test_an_output_that_was_overwritten_is_refused_by_backward(path):
    y = SF.aid(torch.randn(4096, requires_grad=True))
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_leaf_is_not_overwritten(path):
    x = torch.randn(100, requires_grad=True)
    before = x.detach().clone()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        SF.aid(x, inplace=True)
    assert torch.equal(x, before)


@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_derivatives_of_the_gradient_are_the_gate_again(path, activation):
    x = torch.randn(500, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(3)
    y = activation(x)
    grad = torch.randn_like(y, requires_grad=True)
    (first,) = torch.autograd.grad(y, x, grad, create_graph=True)
    (second,) = torch.autograd.grad(first, grad, torch.full_like(first, 2.0))
    torch.testing.assert_close(second, 2 * (first / grad).detach())
    with forward_ad.dual_level():
        pushed = torch.autograd.grad(activation(x), x, forward_ad.make_dual(torch.ones_like(y), torch.ones_like(y)))[0]
        assert torch.equal(forward_ad.unpack_dual(pushed).tangent, pushed)


def test_a_generator_that_is_passed_gives_the_masks_and_no_other_moves(path):
    x, before = torch.randn(1000), torch.get_rng_state()
    first, second = (SF.aid(x, generator=torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), before)


def test_compiled_autograd_compiles_the_backward_in_one_graph(path):
    x = torch.randn(100, requires_grad=True)
    y = SF.relu_dropout(x, 0.5)
    with compiled_autograd._enable(torch.compile(backend="aot_eager", fullgraph=True)):
        y.sum().backward()
    assert torch.equal(x.grad, 2.0 * (y != 0))


def test_a_thread_that_began_in_inference_mode_trains_afterwards(path):
    outcome = []

    def work() -> None:
        with torch.inference_mode():
            SF.aid(torch.randn(10))
        x = torch.randn(10, requires_grad=True)
        y = SF.aid(x)
        y.sum().backward()
        outcome.append(torch.equal(x.grad, (y != 0).float()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert outcome == [True]


def test_without_a_compiler_the_build_ends_with_a_sentence(tmp_path):
    command = [sys.executable, "-m", "supple", "build"]
    done = subprocess.run(
        command, env=os.environ | {"PATH": str(tmp_path)}, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("not built, and supple works without it: ")
    assert "Traceback" not in done.stderr


def test_without_a_built_node_the_description_says_how_to_build_it(tmp_path, monkeypatch):
    monkeypatch.setattr(node_file, "library", lambda: tmp_path / "node.so")
    node_file.load_node.cache_clear()
    assert node_file.load_node() == (None, "`python -m supple build` makes its calls faster")
    (tmp_path / "node.so").write_text("no library")
    node_file.load_node.cache_clear()
    module, why = node_file.load_node()
    node_file.load_node.cache_clear()
    assert module is None
    assert why.startswith("the built node does not load: ")
