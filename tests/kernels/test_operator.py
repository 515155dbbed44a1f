"""The operator over the kernels: its gradient, what it keeps, transforms, and the ops that compilers see."""

import pytest
import torch
from torch._functorch.aot_autograd import aot_function, make_boxed_func
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.autograd import forward_ad
from torch.autograd.graph import saved_tensors_hooks
from torch.fx.experimental.proxy_tensor import make_fx

from supple import kernels
from supple.kernels.base import Intervals
from supple.kernels.operator import interval_dropout
from supple.kernels.reference import ReferenceKernel
from supple.random import mask_stream

TWO = Intervals((0.0,), (0.6, 0.3), 1.0 / 0.7)
FOUR = Intervals((-1.0, 0.0, 1.0), (0.2, 0.7, 0.5, 0.4))
BOTH = pytest.mark.parametrize("intervals", [TWO, FOUR], ids=["two", "four"])


def layouts() -> list[torch.Tensor]:
    image = torch.randn(2, 4, 3, 5)
    return [image, image.to(memory_format=torch.channels_last), image.transpose(1, 3), image[:, ::2], torch.randn(0, 3)]


@BOTH
@pytest.mark.parametrize("layout", range(5))
def test_registered_interval_dropout_passes_opcheck(intervals, layout):
    x = layouts()[layout].requires_grad_()
    args = (x, list(intervals.edges), list(intervals.drop), intervals.scale)
    torch.library.opcheck(torch.ops.supple.differentiable_drop.default, args)


def test_a_compiled_graph_calls_the_op_without_a_gradient_and_torchs_operations_in_the_backward():
    graphs = []

    def keep(graph, inputs):
        graphs.append([str(node.target) for node in graph.graph.nodes if node.op == "call_function"])
        return make_boxed_func(graph.forward)

    x = torch.randn(8, requires_grad=True)
    aot_function(lambda t: interval_dropout(t, TWO), fw_compiler=keep, bw_compiler=keep)(x).sum().backward()
    forward, backward = graphs
    assert [name for name in forward if name.startswith("supple")] == ["supple.drop.default"]
    assert backward
    assert not [name for name in backward if name.startswith("supple")]


INSIDE = Intervals((-1.0, 0.5), (0.2, 0.75, 0.4), 2.0)  # 0 lies in the second: keep rate 1/4, times 2


def gradient(x: torch.Tensor, *, inplace: bool = False) -> torch.Tensor:
    leaf = x.clone(memory_format=torch.preserve_format).requires_grad_()
    interval_dropout(leaf * 1.0, INSIDE, inplace=inplace).sum().backward()
    return leaf.grad


def compiled_by_aot(function, x):
    return torch.compile(lambda t: function(t), fullgraph=True, backend="aot_eager")


def make_fx_at(function, x):
    return make_fx(function)(x)


def compiled_gradient(x: torch.Tensor) -> torch.Tensor:
    leaf = x.clone().requires_grad_()
    torch.compile(lambda t: interval_dropout(t, INSIDE), fullgraph=True, backend="aot_eager")(leaf).sum().backward()
    return leaf.grad


def second_gradient(x: torch.Tensor) -> torch.Tensor:
    """Of y * y / 2 at y = 0, where the slope counts twice."""
    leaf = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(interval_dropout(leaf, INSIDE).square().sum() / 2, leaf, create_graph=True)
    return torch.autograd.grad(first.sum(), leaf)[0].sqrt()


GRADIENTS = {
    "eager": gradient,
    "inplace": lambda x: gradient(x, inplace=True),
    "channels_last": lambda x: gradient(x.view(5, 4, 2, 25).to(memory_format=torch.channels_last)),
    "expanded gradient of one": lambda x: gradient(x[:1]),
    "functional": torch.func.grad(lambda t: interval_dropout(t, INSIDE).sum()),
    "vmap": lambda x: torch.func.vmap(GRADIENTS["functional"], randomness="different")(x.view(10, 100)),
    "compiled": compiled_gradient,
    "forward mode": lambda x: torch.func.jvp(lambda t: interval_dropout(t, INSIDE), (x,), (torch.ones_like(x),))[1],
    "second": second_gradient,
}


@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("way", GRADIENTS)
def test_gradient_at_zero_is_the_mean_of_the_mask_if_zero_lies_inside_an_interval(way, zero):
    got = GRADIENTS[way](torch.full((1000,), zero))
    assert torch.equal(got, torch.full_like(got, 0.5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_an_edge_that_rounds_to_zero_is_an_edge_at_zero(dtype):
    least = torch.nextafter(torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype)).double().item()
    for edge in (0.0, least, 0.51 * least, 0.5 * least, 0.49 * least, -0.5 * least, -0.51 * least, 1e-310):
        for intervals in (Intervals((edge,), (0.25, 0.5)), Intervals((-1.0, edge), (1.0, 0.25, 0.5))):
            rounded = torch.tensor(edge, dtype=torch.float64).to(dtype).item()
            x = torch.zeros(100, dtype=dtype, requires_grad=True)
            interval_dropout(x, intervals).sum().backward()
            expected = 0.0 if rounded == 0 else 0.75 if rounded > 0 else 0.5
            assert torch.equal(x.grad, torch.full_like(x, expected)), (edge, intervals)


@BOTH
@pytest.mark.parametrize("inplace", [False, True])
def test_backward_keeps_the_output_and_nothing_else(intervals, inplace):
    saved = []
    x = torch.randn(100, requires_grad=True) * 1.0
    with saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        y = interval_dropout(x, intervals, inplace=inplace)
    assert [t.untyped_storage().data_ptr() for t in saved] == [y.untyped_storage().data_ptr()]


@BOTH
def test_tangent_passes_the_gate_of_the_gradient_in_place_too(intervals):
    x, tangent = torch.randn(2, 1000)
    with forward_ad.dual_level():
        given = forward_ad.make_dual(x, tangent) * 1.0
        y, pushed = forward_ad.unpack_dual(interval_dropout(given, intervals, inplace=True))
        assert torch.equal(pushed, torch.where(y != 0, tangent * intervals.scale, torch.zeros(())))
    assert 0 < (y != 0).sum() < 1000


def test_tangent_of_a_gradient_that_arrives_after_the_forward_is_gated():
    x, grad, tangent = torch.randn(1000, requires_grad=True), *torch.randn(2, 1000)
    y = interval_dropout(x, TWO)
    with forward_ad.dual_level():
        (gradient,) = torch.autograd.grad(y, x, forward_ad.make_dual(grad, tangent))
        pushed = forward_ad.unpack_dual(gradient).tangent
    assert torch.equal(pushed, torch.where(y != 0, tangent * TWO.scale, torch.zeros(())))


def test_vmap_maps_the_dimension_it_was_given():
    x = torch.arange(1.0, 7.0).view(2, 3)
    y = torch.func.vmap(lambda t: interval_dropout(t, Intervals((0.0,), (1.0, 0.0))), 1, 1, randomness="different")(x)
    assert torch.equal(y, x)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("randomness", ["same", "error"])
def test_vmap_refuses_other_randomness_and_says_what_to_do(randomness, compiled):
    mapped = torch.func.vmap(lambda t: interval_dropout(t, TWO), randomness=randomness)
    with pytest.raises(RuntimeError, match=rf"(?s)randomness=\W+{randomness}\W.*randomness=\"different\""):
        (torch.compile(mapped, backend="aot_eager") if compiled else mapped)(torch.ones(2, 3))


DERIVATIVES = {
    "grad": torch.func.grad,
    "vjp": lambda f: lambda x: torch.func.vjp(f, x)[1](torch.ones(()))[0],
    "jvp": lambda f: lambda x: torch.func.jvp(f, (x,), (x + 1.0,))[1],
    "jacfwd": torch.func.jacfwd,
    "hessian": torch.func.hessian,
    "gradient of a gradient": lambda f: torch.func.grad(lambda x: torch.func.grad(f)(x).pow(2).sum()),
    "mapped": lambda f: lambda x: torch.func.vmap(torch.func.grad(f), randomness="different")(x.view(8, 5)),
}


@pytest.mark.parametrize("record", [compiled_by_aot, make_fx_at], ids=["compiled", "make_fx"])
@pytest.mark.parametrize("intervals", [TWO, INSIDE], ids=["edge at 0", "0 inside"])
@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_by_torch_func_in_a_recorded_graph_are_those_of_eager_code(name, intervals, record):
    derivative = DERIVATIVES[name](lambda t: (interval_dropout(t, intervals).exp() * t).sum())
    x = torch.randn(40)
    x[::4] = 0.0
    recorded = record(derivative, x)
    torch.manual_seed(3)
    expected = derivative(x)
    torch.manual_seed(3)
    torch.testing.assert_close(recorded(x), expected)
    torch.manual_seed(4)
    assert not torch.equal(recorded(x), expected)  # draws anew


def test_functional_gradient_sees_an_inplace_draw():
    def loss(x: torch.Tensor) -> torch.Tensor:
        hidden = x * 2.0
        y = interval_dropout(hidden, TWO, generator=torch.Generator().manual_seed(1), inplace=True)
        return (hidden + y).sum()

    x = torch.randn(200)
    y = interval_dropout(x, TWO, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(torch.func.grad(loss)(x), 4.0 * TWO.scale * (y != 0))


def test_compiled_code_does_not_merge_two_draws():
    def twice(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return interval_dropout(x, TWO), interval_dropout(x, TWO)

    x = torch.ones(1000)
    torch.manual_seed(2)
    first, second = torch.compile(twice, fullgraph=True)(x)
    torch.manual_seed(2)
    expected = twice(x)
    assert not torch.equal(first, second)
    assert torch.equal(first, expected[0])
    assert torch.equal(second, expected[1])


def test_a_generator_cannot_be_compiled_and_the_error_says_so():
    def draw(x: torch.Tensor) -> torch.Tensor:
        return interval_dropout(x, TWO, generator=torch.default_generator)

    with pytest.raises(Exception, match=r"generator= cannot be traced|Observed exception"):  # torch 2.6 says no more
        torch.compile(draw, backend="eager", fullgraph=True)(torch.ones(3))


def test_cpu_has_a_kernel_and_the_description_names_it():
    assert isinstance(kernels.REFERENCE, ReferenceKernel)
    assert f"cpu: {kernels.kernel_for(torch.device('cpu')).name}" in kernels.describe()


def trace_by_jit(function, x):
    return torch.jit.trace(function, (x,), check_trace=False)


@pytest.mark.parametrize("trace", [trace_by_jit, lambda function, x: make_fx(function)(x)], ids=["jit", "make_fx"])
def test_a_trace_draws_and_does_not_hand_out_memory_as_it_was(trace):
    intervals, x = Intervals((0.0,), (1.0, 0.0)), torch.randn(1000)  # a ReLU
    traced = trace(lambda t: interval_dropout(t * 1.0, intervals), x)
    other = torch.randn(1000)
    assert torch.equal(traced(other), other.relu())


SOURCES = {"default": None, "generator": torch.Generator()}
BY_SOURCE = pytest.mark.parametrize("generator", SOURCES.values(), ids=SOURCES)


@BY_SOURCE
def test_a_plain_tensor_under_a_mode_of_fake_ones_gives_a_fake_one(generator):
    with FakeTensorMode(allow_non_fake_inputs=True), mask_stream(generator):
        y = interval_dropout(torch.ones(3), Intervals((0.0,), (0.9, 0.1)))
    assert isinstance(y, FakeTensor)  # and no library wrote where a fake tensor has no memory


def records_generators():
    try:
        make_fx(lambda x: x.bernoulli(generator=torch.Generator()))(torch.rand(3))
    except NotImplementedError:
        return False
    return True


@BY_SOURCE
def test_a_recorded_graph_draws_by_the_law(generator):
    if generator is not None and not records_generators():
        pytest.skip("this torch's make_fx takes no generator")
    graph = make_fx(lambda x: interval_dropout(x, FOUR, generator=generator))(torch.randn(4000))
    first, second = graph(torch.full((4000,), 0.5)), graph(torch.full((4000,), 0.5))
    assert first.unique().tolist() == [0.0, 0.5]
    assert abs((first != 0).double().mean() - 0.5) < 5 * 0.5 / 4000**0.5
    assert not torch.equal(first, second)


def test_the_gradient_of_a_zero_tensor_is_zero():
    x = torch.randn(33, requires_grad=True)
    interval_dropout(x, TWO).backward(torch._efficientzerotensor((33,)))
    assert torch.equal(x.grad, torch.zeros(33))
