"""Every activation against its formula, element by element: values and gradients in all layouts, dtypes and streams."""

import contextlib
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from oracles import activations as oracle
from property_settings import examples
from supple import AID, CReLU, DropReLU, Fourier, IntervalDropout, ReLUDropout
from supple.layers import Identity, RReLU
from supple.random import mask_stream

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
# A rate's complement, its reciprocal, their rounding to the dtype, the product, and its rounding from float32.
ROUNDINGS_OF_A_PRODUCT = 5
# sin and cos of torch's vector library err by up to 3.5 units in the last place; one is two unit roundoffs.
ROUNDINGS_OF_SINE = 7
LAYOUTS = ("contiguous", "channels_last", "transposed", "permuted", "strided", "offset")


def unit(dtype: torch.dtype) -> float:
    """The relative error of one rounding."""
    return torch.finfo(dtype).eps / 2


def laid_out(x: Tensor, layout: str) -> Tensor:
    """The same values, otherwise arranged in memory."""
    if layout == "channels_last" and x.dim() in (4, 5):
        return x.to(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d)
    if layout == "transposed" and x.dim() > 1:
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "permuted" and x.dim() > 2:
        order = [*range(1, x.dim()), 0]
        return x.permute(order).contiguous().permute(*[order.index(d) for d in range(x.dim())])
    if layout == "strided":
        wide = torch.zeros(*x.shape[:-1], 2 * x.shape[-1], dtype=x.dtype)
        wide[..., ::2] = x
        return wide[..., ::2]
    if layout == "offset":
        return torch.cat([torch.zeros(3, dtype=x.dtype), x.flatten()])[3:].view(x.shape)
    return x.contiguous()


@dataclass(frozen=True)
class Case:
    """An input, the gradient of an output of its shape, and what the masks are drawn from."""

    x: Tensor
    grad_layout: str
    seed: int
    stream: bool
    inplace: bool

    def inputs(self) -> tuple[Tensor, Tensor]:
        """A leaf, and what the layer is given: the leaf itself, or for an in-place layer what was computed of it."""
        leaf = self.x.detach().requires_grad_()
        return leaf, leaf * 1 if self.inplace else leaf

    def drawing(self) -> contextlib.AbstractContextManager[None]:
        torch.manual_seed(self.seed)
        return mask_stream(torch.Generator().manual_seed(self.seed)) if self.stream else contextlib.nullcontext()

    def gradient_like(self, y: Tensor) -> Tensor:
        grad = torch.randn(y.shape, generator=torch.Generator().manual_seed(self.seed)).to(y.dtype)
        return laid_out(grad, self.grad_layout)


@st.composite
def cases(draw, *, special: tuple[float, ...] = (0.0, -0.0), min_dim: int = 1, dtypes: tuple = DTYPES) -> Case:
    """Normal values with special ones among them."""
    shape = draw(st.lists(st.integers(1, 4), min_size=max(min_dim, draw(st.integers(1, 5))), max_size=5))
    dtype, layout = draw(st.sampled_from(dtypes)), draw(st.sampled_from(LAYOUTS))
    seed = draw(st.integers(0, 2**31))
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape)
    if special:
        values = np.where(rng.random(shape) < 0.4, rng.choice(special, shape), values)
    x = laid_out(torch.tensor(values).to(dtype), layout)
    return Case(x, draw(st.sampled_from(LAYOUTS)), seed, draw(st.booleans()), draw(st.booleans()))


PROBABILITIES = st.sampled_from([0.0, 0.1, 0.5, 0.7, 0.9, 0.99, 1.0])
EDGES = (-1.0, -0.5, 0.0, 0.25, 1.5)  # exact in every dtype


MASKED = {"aid": AID, "drop_relu": DropReLU, "relu_dropout": ReLUDropout, "interval": IntervalDropout}
of_each_kind = pytest.mark.parametrize("kind", MASKED)


@st.composite
def masked_layers(draw, kind: str) -> tuple[tuple, nn.Module]:
    """A law of Algorithm 1, and the layer."""
    if kind == "interval":
        edges = tuple(sorted(draw(st.sets(st.sampled_from(EDGES), min_size=1, max_size=4))))
        # Rates of 0 and 1 show on which side of an edge an element was counted.
        drop = tuple(draw(st.one_of(st.sampled_from([0.0, 1.0]), PROBABILITIES)) for _ in range(len(edges) + 1))
        return (edges, drop, 1.0), IntervalDropout(edges, drop)
    p = draw(PROBABILITIES)
    return getattr(oracle, kind)(p), MASKED[kind](p)


def run(layer: nn.Module, case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """x, y, the gradient of y and that of x, in float64."""
    layer.inplace = case.inplace
    leaf, given_x = case.inputs()
    with case.drawing():
        y = layer(given_x)
    assert y.shape[0] == case.x.shape[0]
    assert y.dtype == case.x.dtype
    grad = case.gradient_like(y)
    (grad_x,) = torch.autograd.grad(y, leaf, grad)
    assert (y is given_x) == case.inplace
    return tuple(t.detach().double().numpy() for t in (case.x, y, grad, grad_x))


def agrees(computed: float, expected: float, dtype: torch.dtype, roundings: int) -> bool:
    return abs(computed - expected) <= roundings * unit(dtype) * abs(expected) + torch.finfo(dtype).tiny


@of_each_kind
@examples(20)
@given(case=cases(special=(0.0, -0.0, *EDGES)), data=st.data())
def test_masked_activations_in_training_give_each_element_what_its_draw_says(kind, case, data):
    law, layer = data.draw(masked_layers(kind))
    x, y, grad, grad_x = run(layer, case)
    scale = law[2]
    roundings = 0 if scale == 1.0 else ROUNDINGS_OF_A_PRODUCT
    for place in np.ndindex(*x.shape):
        kept = y[place] != 0.0
        if x[place] == 0.0:
            if 0.0 not in law[0]:
                continue  # the test below
        elif kept:
            assert oracle.may_be_kept(x[place], law)
        else:
            assert oracle.may_be_dropped(x[place], law)
        assert agrees(y[place], oracle.trained_value(x[place], kept, scale), case.x.dtype, roundings)
        slope = oracle.trained_gradient(x[place], kept, law)
        assert agrees(grad_x[place], grad[place] * slope, case.x.dtype, roundings)


@examples(15)
@given(case=cases(), rates=st.lists(PROBABILITIES, min_size=1, max_size=3), scale=st.sampled_from([1.0, 0.25]))
def test_gradient_at_zero_inside_an_interval_is_the_keep_rate_in_training_and_evaluation(case, rates, scale):
    edges = tuple(scale * edge for edge in (-1.0, 1.0))[: len(rates) - 1]
    law = edges, tuple(rates), 1.0
    for training in (True, False):
        layer = IntervalDropout(edges, rates).train(training)
        x, y, grad, grad_x = run(layer, case)
        for place in zip(*np.nonzero(x == 0.0), strict=True):
            assert y[place] == 0.0
            expected = grad[place] * oracle.trained_gradient(0.0, False, law)
            assert agrees(grad_x[place], expected, case.x.dtype, ROUNDINGS_OF_A_PRODUCT)


@of_each_kind
@examples(15)
@given(case=cases(special=(0.0, -0.0, *EDGES)), data=st.data())
def test_masked_activations_in_evaluation_give_the_mean_of_their_draws(kind, case, data):
    law, layer = data.draw(masked_layers(kind))
    x, y, grad, grad_x = run(layer.eval(), case)
    for place in np.ndindex(*x.shape):
        slope = oracle.mean_slope(x[place], law)
        if x[place] == 0.0 and 0.0 in law[0]:  # torch's leaky ReLU: that of the negative side
            slope = oracle.mean_slope(np.nextafter(0.0, -1.0), law)
        if kind == "relu_dropout":  # ReLU, at drop rate 1 too, where training leaves nothing; slope 0 at 0
            slope = float(x[place] > 0)
        assert agrees(y[place], slope * x[place], case.x.dtype, ROUNDINGS_OF_A_PRODUCT)
        assert agrees(grad_x[place], slope * grad[place], case.x.dtype, ROUNDINGS_OF_A_PRODUCT)


# On a CPU torch has no RReLU in float16.
SLOPES = st.sampled_from([(0.0625, 0.125), (0.125, 0.333), (0.25, 0.25), (0.0, 1.0)])


@examples(40)
@given(case=cases(dtypes=(torch.float32, torch.float64, torch.bfloat16)), slopes=SLOPES, training=st.booleans())
def test_rrelu_multiplies_gradient_and_value_by_the_same_slope(case, slopes, training):
    lower, upper = slopes
    x, y, grad, grad_x = run(RReLU(lower, upper).train(training), case)
    rounding = ROUNDINGS_OF_A_PRODUCT * unit(case.x.dtype)
    tiny = torch.finfo(case.x.dtype).tiny
    for place in np.ndindex(*x.shape):
        if x[place] == 0.0:
            assert y[place] == 0.0
            # Any slope between those of the two branches.
            assert lower * abs(grad[place]) - tiny <= (1 + rounding) * grad_x[place] * np.sign(grad[place])
            assert grad_x[place] * np.sign(grad[place]) <= (1 + rounding) * abs(grad[place])
            continue
        slope = y[place] / x[place]  # what it was, up to the roundings of y
        if x[place] > 0:
            assert y[place] == x[place]
        elif training:
            assert lower - rounding - tiny / abs(x[place]) <= slope <= upper + rounding
        else:
            assert agrees(y[place], x[place] * (lower + upper) / 2, case.x.dtype, ROUNDINGS_OF_A_PRODUCT)
        doubt = rounding * abs(slope) + tiny / abs(x[place])
        expected = grad[place] * oracle.rrelu_slope(x[place], slope)
        assert abs(grad_x[place] - expected) <= rounding * abs(expected) + doubt * abs(grad[place]) + tiny


@examples(40)
@given(case=cases(min_dim=2), training=st.booleans())
def test_crelu_holds_both_halves_side_by_side(case, training):
    case = Case(case.x, case.grad_layout, case.seed, case.stream, inplace=False)
    x, y, grad, grad_x = run(CReLU().train(training), case)
    assert np.array_equal(y, oracle.crelu(x))
    assert np.array_equal(grad_x, oracle.crelu_gradient(x, grad)[0])


@examples(40)
@given(case=cases(min_dim=2), training=st.booleans(), stretch=st.sampled_from([1.0, 30.0]))
def test_fourier_holds_sine_and_cosine_side_by_side(case, training, stretch):
    case = Case(case.x * stretch, case.grad_layout, case.seed, case.stream, inplace=False)
    dtype = case.x.dtype
    x, y, grad, grad_x = run(Fourier().train(training), case)
    expected = oracle.fourier(x)
    assert (np.abs(y - expected) <= ROUNDINGS_OF_SINE * unit(dtype) * np.abs(expected) + torch.finfo(dtype).tiny).all()
    expected, magnitude = oracle.fourier_gradient(x, grad)
    # Sine, product with the gradient, and the sum of two parts; of half precision each is rounded from float32.
    limit = (ROUNDINGS_OF_SINE + 3) * unit(dtype) * magnitude + torch.finfo(dtype).tiny
    assert (np.abs(grad_x - expected) <= limit).all()


@examples(10)
@given(case=cases(min_dim=1), training=st.booleans())
def test_identity_changes_nothing(case, training):
    case = Case(case.x, case.grad_layout, case.seed, case.stream, inplace=False)
    x, y, grad, grad_x = run(Identity().train(training), case)
    assert np.array_equal(y, x)
    assert np.array_equal(grad_x, grad)


# Laws of the draws: 5 sigma, computed

LAW_SHAPE = (8, 10, 12, 15)
SIGMAS = 5.0


def assert_independent_draws(draws: np.ndarray, rate: float) -> None:
    """Draws of one rate, each independent of its neighbours in every direction."""
    deviation = draws - rate
    assert abs(deviation.mean()) <= SIGMAS * math.sqrt(rate * (1 - rate) / draws.size)
    for axis in range(draws.ndim):
        for step in (1, 2):
            near = np.take(deviation, range(draws.shape[axis] - step), axis)
            far = np.take(deviation, range(step, draws.shape[axis]), axis)
            assert abs((near * far).mean()) <= SIGMAS * rate * (1 - rate) / math.sqrt(near.size)


@pytest.mark.parametrize("stream", [False, True], ids=["default", "stream"])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "strided"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("layer", "law"),
    [
        (AID(0.9), oracle.aid(0.9)),
        (AID(0.6), oracle.aid(0.6)),
        (DropReLU(0.8), oracle.drop_relu(0.8)),
        (ReLUDropout(0.3), oracle.relu_dropout(0.3)),
        (IntervalDropout((-1.0, 0.5), (0.2, 0.9, 0.4)), ((-1.0, 0.5), (0.2, 0.9, 0.4), 1.0)),
    ],
    ids=["aid", "aid_blend", "drop_relu", "relu_dropout", "interval"],
)
def test_draws_have_their_rate_and_are_independent(layer, law, dtype, layout, stream):
    drawing = mask_stream(torch.Generator().manual_seed(3)) if stream else contextlib.nullcontext()
    outcomes = []
    for sign in (1.0, -1.0):
        x = laid_out((sign * (torch.rand(LAW_SHAPE) * 0.4 + 0.05)).to(dtype), layout)  # all in one interval
        rate = oracle.rate_of(sign * 0.25, law[0], law[1])
        with drawing:
            outcomes.append(((layer(x) == 0).double().numpy(), rate))
        drawing = mask_stream(torch.Generator().manual_seed(4)) if stream else contextlib.nullcontext()
    for dropped, rate in outcomes:
        if rate in (0.0, 1.0):
            assert (dropped == rate).all()
        else:
            assert_independent_draws(dropped, rate)


@pytest.mark.parametrize("stream", [False, True], ids=["default", "stream"])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_slopes_of_rrelu_are_uniform_and_independent(layout, stream):
    lower, upper = 0.125, 0.333
    x = laid_out(-torch.rand(LAW_SHAPE, dtype=torch.float64) - 0.5, layout)
    with mask_stream(torch.Generator().manual_seed(3)) if stream else contextlib.nullcontext():
        slopes = (RReLU(lower, upper)(x) / x).numpy()
    shares = (slopes - lower) / (upper - lower)
    # Dvoretzky, Kiefer, Wolfowitz: the chance of a larger distance is 5.7e-7, that of 5 sigma.
    empirical = np.arange(1, shares.size + 1) / shares.size
    assert np.abs(np.sort(shares.ravel()) - empirical).max() <= math.sqrt(math.log(2 / 5.7e-7) / (2 * shares.size)) + (
        1 / shares.size
    )
    assert_independent_draws((shares < 0.5).astype(float), 0.5)
