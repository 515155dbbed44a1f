"""IntervalDropout, Algorithm 1: keep rates per interval, edges, its eval form, and AID as two intervals."""

import math
import re

import pytest
import torch

from supple import AID, IntervalDropout

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
N = 1_000_000
THREE = {"edges": (-0.5, 1.0), "drop": (0.2, 0.9, 0.45)}


def sigma(rate: float, n: int) -> float:
    return math.sqrt(rate * (1 - rate) / n)


@DTYPES
def test_each_interval_has_its_own_keep_rate(dtype: torch.dtype):
    x = torch.tensor([-2.0, 0.25, 3.0], dtype=dtype).repeat(N)
    rates = (IntervalDropout(**THREE)(x) != 0).view(-1, 3).double().mean(dim=0)
    for rate, drop in zip(rates.tolist(), THREE["drop"], strict=True):
        assert abs(rate - (1 - drop)) < 5 * sigma(drop, N)


@DTYPES
def test_eval_scales_each_interval_by_its_keep_rate(dtype: torch.dtype):
    x = torch.tensor([-2.0, 0.25, 3.0], dtype=dtype)
    expected = torch.stack([(1 - drop) * value for drop, value in zip(THREE["drop"], x, strict=True)])
    assert torch.equal(IntervalDropout(**THREE).eval()(x), expected)


@DTYPES
@pytest.mark.parametrize("edge", [0.7, -0.7, 1.0, 3.3])
@pytest.mark.parametrize("training", [True, False])
def test_an_element_equal_to_an_edge_belongs_to_the_right(dtype: torch.dtype, edge: float, training: bool):
    at = torch.full((100,), edge, dtype=dtype)
    below = torch.nextafter(at, torch.full_like(at, -math.inf))
    right = IntervalDropout((edge,), (1.0, 0.0)).train(training)
    left = IntervalDropout((edge,), (0.0, 1.0)).train(training)
    assert torch.equal(right(at), at)
    assert torch.equal(left(below), below)
    assert not right(below).any()
    assert not left(at).any()


def test_two_intervals_equal_aid_in_eval_exactly():
    x = torch.cat((torch.tensor([0.0, -0.0, math.inf, -math.inf]), torch.randn(1000)))
    ours, aid = IntervalDropout(edges=(0.0,), drop=(0.9, 0.1)).eval(), AID(0.9).eval()
    assert torch.equal(ours(x), aid(x))


def test_two_intervals_equal_aid_in_law():
    x = torch.tensor([1.0, -1.0]).repeat(N)
    for layer in (IntervalDropout(edges=(0.0,), drop=(0.9, 0.1)), AID(0.9)):
        positive, negative = (layer(x) != 0).view(-1, 2).double().mean(dim=0).tolist()
        assert abs(positive - 0.9) < 5 * sigma(0.9, N)
        assert abs(negative - 0.1) < 5 * sigma(0.1, N)


def test_equal_rates_are_dropout_without_rescaling():
    x = torch.randn(N)
    y = IntervalDropout((-1.0, 1.0), (0.3, 0.3, 0.3))(x)
    assert torch.equal(y[y != 0], x[y != 0])
    for part in (x < -1, x.abs() < 1, x > 1):
        assert abs((y[part] != 0).double().mean() - 0.7) < 5 * sigma(0.3, int(part.sum()))


def test_edges_beyond_the_range_of_the_dtype_leave_one_interval_empty():
    x = torch.tensor([-6e4, 0.0, 6e4], dtype=torch.float16)
    layer = IntervalDropout((-1e5, 1e5), (1.0, 0.0, 1.0))
    assert torch.equal(layer(x), x)
    assert torch.equal(layer.eval()(x), x)


@DTYPES
@pytest.mark.parametrize("training", [True, False])
def test_gradient_at_zero_is_the_keep_rate_of_the_interval_that_zero_lies_inside(training: bool, dtype: torch.dtype):
    x = torch.tensor([0.0, -0.0], dtype=dtype).repeat(500).requires_grad_()
    y = IntervalDropout((-1.0, 1.0), (0.5, 0.3, 0.5)).train(training)(x)
    y.sum().backward()
    assert not y.any()
    assert torch.equal(x.grad, torch.full_like(x, 0.7))


def test_gradient_of_what_relu_gives_has_the_same_mean_in_training_and_evaluation():
    layer, means = IntervalDropout((1.0,), (0.4, 0.8)), []
    for training in (True, False):
        x = torch.randn(N).relu().requires_grad_()  # half of it zeros
        layer.train(training)(x).sum().backward()
        means.append(x.grad.double().mean())
    # Each gradient lies in [0, 1], so that its standard deviation is at most a half, in either mode.
    assert abs(means[0] - means[1]) < 5 * math.sqrt(2 * 0.5**2 / N)


def test_everything_dropped_in_eval_still_backpropagates_zero():
    x = torch.randn(10, requires_grad=True)
    IntervalDropout((), (1.0,)).eval()(x).sum().backward()
    assert torch.equal(x.grad, torch.zeros(10))


def test_repr_shows_edges_and_rates():
    assert repr(IntervalDropout([0], [0.9, 0.1])) == "IntervalDropout(edges=(0.0,), drop=(0.9, 0.1))"
    assert repr(IntervalDropout((), (0.5,), inplace=True)) == "IntervalDropout(edges=(), drop=(0.5,), inplace=True)"


@pytest.mark.parametrize(
    ("edges", "drop", "message"),
    [
        (
            (1.0, 0.0),
            (0.1,) * 3,
            "IntervalDropout.edges must be sorted, each larger than the one before; got (1.0, 0.0).",
        ),
        (
            (0.0,),
            (0.1,),
            "IntervalDropout.drop needs one rate per interval: 1 edges make 2 intervals; got 1 rates, (0.1,).",
        ),
        ((0.0,), (0.1, 1.5), "IntervalDropout.drop[1] is a drop rate, in [0, 1]; got 1.5."),
        ((0.0,), (math.nan, 0.5), "IntervalDropout.drop[0] is a drop rate, in [0, 1]; got nan."),
    ],
    ids=["unsorted", "count", "range", "nan"],
)
def test_constructor_names_the_argument_the_value_and_the_rule(edges: tuple, drop: tuple, message: str):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        IntervalDropout(edges, drop)
