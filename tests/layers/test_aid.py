"""AID_p against Algorithm 2 as the paper lists it, and its general form, Algorithm 1: rates, edges, special numbers."""

import math

import pytest
import torch
from torch import Tensor

from supple import AID, IntervalDropout

NAN, INF = float("nan"), float("inf")
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
MODES = pytest.mark.parametrize("training", [True, False])
N = 2_000_000  # tells a rate of 0.9 from its bfloat16 neighbour 0.8984: 5 sigma = 0.0011


def algorithm_2(x: Tensor, relu_taken: Tensor) -> Tensor:
    """The training branch, M * r(x) + (1 - M) * r_bar(x), as a choice so that infinity times zero does not arise."""
    return torch.where(relu_taken, torch.relu(x), -torch.relu(-x))


@DTYPES
def test_keep_rate_of_p_09_is_not_rounded_to_the_dtype(dtype):
    rate, sigma = (AID(0.9)(torch.ones(N, dtype=dtype)) != 0).double().mean().item(), math.sqrt(0.09 / N)
    assert abs(rate - 0.9) < 5 * sigma
    assert abs(rate - torch.tensor(0.9, dtype=torch.bfloat16).item()) > 5 * sigma


@DTYPES
def test_values_and_gradients_equal_algorithm_2_with_the_same_mask(dtype):
    special = torch.tensor([0.0, -0.0, INF, -INF, NAN, torch.finfo(dtype).max, -torch.finfo(dtype).tiny], dtype=dtype)
    x = torch.cat((special.repeat(50), torch.randn(2000).to(dtype)))
    grad = torch.randn(len(x)).to(dtype)
    ours, listed = x.clone().requires_grad_(), x.clone().requires_grad_()
    y = AID(0.7)(ours)
    expected = algorithm_2(listed, torch.where(x > 0, y.detach() != 0, y.detach() == 0))
    y.backward(grad)
    expected.backward(grad)
    torch.testing.assert_close(y, expected, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(ours.grad, listed.grad, rtol=0, atol=0)


@DTYPES
@pytest.mark.parametrize("p", [0.05, 0.5, 0.9, 0.99])
def test_eval_equals_algorithm_2_bit_for_bit(dtype, p):
    x = torch.cat((torch.tensor([0.0, -0.0, INF, -INF, NAN]), torch.randn(1000))).to(dtype)
    expected = torch.where(x >= 0, p * x, (1 - p) * x)
    torch.testing.assert_close(AID(p).eval()(x), expected, rtol=0, atol=0, equal_nan=True)


@MODES
@pytest.mark.parametrize(("p", "expected"), [(1.0, torch.relu), (0.0, lambda x: -torch.relu(-x))], ids=["1", "0"])
def test_p_one_is_relu_and_p_zero_is_negative_relu(p, expected, training):
    x = torch.cat((torch.tensor([0.0, -0.0, INF, -INF, NAN]), torch.randn(1000)))
    torch.testing.assert_close(AID(p).train(training)(x), expected(x), rtol=0, atol=0, equal_nan=True)


@MODES
@pytest.mark.parametrize("drop", [(0.9, 1.0 - 0.9), (0.9, 0.1), (0.7, 0.3), (0.99, 0.01), (0.3, 0.7)])
def test_aid_is_the_two_interval_form(drop, training):
    x, outputs = torch.cat((torch.tensor([0.0, -0.0, INF, -INF]), torch.randn(10_000))), []
    for layer in (AID(drop[0]), IntervalDropout((0.0,), drop)):
        torch.manual_seed(1)
        outputs.append(layer.train(training)(x))
    assert torch.equal(*outputs)


@DTYPES
@MODES
@pytest.mark.parametrize("edge", [0.7, -0.7, 1.0, 3.3])
def test_an_element_equal_to_an_edge_belongs_to_the_right(dtype, edge, training):
    at = torch.full((100,), edge, dtype=dtype)
    below = torch.nextafter(at, torch.full_like(at, -math.inf))
    right = IntervalDropout((edge,), (1.0, 0.0)).train(training)
    left = IntervalDropout((edge,), (0.0, 1.0)).train(training)
    assert torch.equal(right(at), at)
    assert torch.equal(left(below), below)
    assert not right(below).any()
    assert not left(at).any()


@MODES
def test_edges_beyond_the_range_of_the_dtype_leave_one_interval_empty(training):
    x = torch.tensor([-6e4, 0.0, 6e4], dtype=torch.float16)
    assert torch.equal(IntervalDropout((-1e5, 1e5), (1.0, 0.0, 1.0)).train(training)(x), x)
