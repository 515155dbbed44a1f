"""AID_p against Algorithm 2 as the paper lists it: law, values, gradients, special numbers, special p."""

import copy
import math
import re

import pytest
import torch
from torch import Tensor, nn

from supple import AID, IntervalDropout

NAN, INF = float("nan"), float("inf")
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
N = 2_000_000  # tells a rate of 0.9 from its bfloat16 neighbour 0.8984: 5 sigma = 0.0011


def algorithm_2(x: Tensor, relu_taken: Tensor) -> Tensor:
    """The training branch, M * r(x) + (1 - M) * r_bar(x), as a choice so that infinity times zero does not arise."""
    return torch.where(relu_taken, torch.relu(x), -torch.relu(-x))


def algorithm_2_eval(x: Tensor, p: float) -> Tensor:
    return torch.where(x >= 0, p * x, (1 - p) * x)


def relu_taken(x: Tensor, y: Tensor) -> Tensor:
    """The mask, read off the output; at zero and NaN either value gives the same output."""
    return torch.where(x > 0, y != 0, y == 0)


def sigma(rate: float, n: int) -> float:
    return math.sqrt(rate * (1 - rate) / n)


@DTYPES
def test_relu_branch_is_taken_with_probability_p_for_either_sign(dtype: torch.dtype):
    p, x = 0.7, torch.tensor([2.0, -2.0], dtype=dtype).repeat(N)
    positive, negative = relu_taken(x, AID(p)(x)).view(-1, 2).double().mean(dim=0).tolist()
    assert abs(positive - p) < 5 * sigma(p, N)
    assert abs(negative - p) < 5 * sigma(p, N)


@DTYPES
def test_keep_rate_of_p_09_is_not_rounded_to_the_dtype(dtype: torch.dtype):
    rate = (AID(0.9)(torch.ones(N, dtype=dtype)) != 0).double().mean().item()
    assert abs(rate - 0.9) < 5 * sigma(0.9, N)
    assert abs(rate - torch.tensor(0.9, dtype=torch.bfloat16).item()) > 5 * sigma(0.9, N)


@DTYPES
def test_values_and_gradients_equal_algorithm_2_with_the_same_mask(dtype: torch.dtype):
    special = torch.tensor([0.0, -0.0, INF, -INF, NAN, torch.finfo(dtype).max, -torch.finfo(dtype).tiny], dtype=dtype)
    x = torch.cat((special.repeat(50), torch.randn(2000).to(dtype)))
    grad = torch.randn(len(x)).to(dtype)
    ours, listed = x.clone().requires_grad_(), x.clone().requires_grad_()
    y = AID(0.7)(ours)
    expected = algorithm_2(listed, relu_taken(x, y.detach()))
    y.backward(grad)
    expected.backward(grad)
    torch.testing.assert_close(y, expected, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(ours.grad, listed.grad, rtol=0, atol=0)


def test_output_statistics_equal_those_of_algorithm_2():
    x, p = torch.linspace(-2, 2, 9, dtype=torch.float64).expand(200_000, 9), 0.8
    ours, listed = AID(p)(x), algorithm_2(x, torch.rand(x.shape) < p)
    n = len(x)
    difference = (ours.mean(dim=0) - listed.mean(dim=0)).abs()
    assert (difference <= 5 * x[0].abs() * math.sqrt(2 * p * (1 - p) / n)).all()
    # Within a row the units are independent: their covariance is zero, as in the listing.
    covariance = torch.cov(ours.T) / (p * (1 - p))
    norm = x[0].abs()[:, None] * x[0].abs()
    assert ((covariance - torch.diag(x[0].square())).abs()[norm > 0] < 5 * norm[norm > 0] * 3 / math.sqrt(n)).all()


@DTYPES
@pytest.mark.parametrize("p", [0.05, 0.5, 0.9, 0.99])
def test_eval_equals_algorithm_2_bit_for_bit(dtype: torch.dtype, p: float):
    x = torch.cat((torch.tensor([0.0, -0.0, INF, -INF, NAN]), torch.randn(1000))).to(dtype)
    expected = algorithm_2_eval(x, p)
    torch.testing.assert_close(AID(p).eval()(x), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("training", [True, False])
def test_p_one_is_relu_in_both_modes(training: bool):
    x = torch.cat((torch.tensor([0.0, -0.0, INF, -INF, NAN]), torch.randn(1000)))
    y = AID(1.0).train(training)(x)
    torch.testing.assert_close(y, torch.relu(x), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("training", [True, False])
def test_p_one_has_the_gradient_of_relu_in_both_modes(training: bool):
    x = torch.randn(1000, requires_grad=True)
    AID(1.0).train(training)(x).sum().backward()
    assert torch.equal(x.grad, (x > 0).float())


@pytest.mark.parametrize("training", [True, False])
def test_p_zero_is_negative_relu_in_both_modes(training: bool):
    x = torch.randn(1000)
    assert torch.equal(AID(0.0).train(training)(x), -torch.relu(-x))


@DTYPES
def test_p_half_evaluates_to_half_the_input(dtype: torch.dtype):
    x = torch.randn(1000).to(dtype)
    assert torch.equal(AID(0.5).eval()(x), x / 2)


def test_p_half_trains_as_dropout_that_ignores_the_sign():
    x = torch.randn(400_000)
    kept = AID(0.5)(x) != 0
    for half in (x > 0, x < 0):
        assert abs(kept[half].double().mean() - 0.5) < 5 * sigma(0.5, int(half.sum()))


@pytest.mark.parametrize("p", [0.5, 0.7, 0.95])
def test_second_moment_is_half_the_variance(p: float):
    z = torch.randn(1_000_000, dtype=torch.float64)
    squares = AID(p)(z).square()
    assert abs(squares.mean() - 0.5) < 5 * squares.std() / math.sqrt(len(z))


def test_default_p_is_09():
    assert AID().p == 0.9


def test_repr_shows_p_and_inplace():
    assert repr(AID(0.99)) == "AID(p=0.99)"
    assert repr(AID(0.7, inplace=True)) == "AID(p=0.7, inplace=True)"


@pytest.mark.parametrize("p", [-0.01, 1.01, NAN])
def test_constructor_refuses_p_outside_the_unit_interval(p: float):
    message = f"AID.p is the probability of the ReLU branch, in [0, 1]; got {p}."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        AID(p)


def test_p_may_be_an_integer():
    assert repr(AID(1)) == "AID(p=1)"
    assert isinstance(AID(1).p, float)


@pytest.mark.parametrize("drop", [(0.9, 1.0 - 0.9), (0.9, 0.1), (0.7, 0.3), (0.99, 0.01), (0.3, 0.7)])
def test_mask_of_aid_is_that_of_the_two_interval_form(drop):
    x = torch.randn(10_000)
    torch.manual_seed(1)
    y = AID(drop[0])(x)
    torch.manual_seed(1)
    assert torch.equal(y, IntervalDropout((0.0,), drop)(x))


def test_a_network_with_aid_learns_the_same_twice_from_one_seed():
    x, y = torch.randn(64, 10), torch.randn(64, 1)
    start = nn.Sequential(nn.Linear(10, 32), AID(0.9), nn.Linear(32, 1))

    def trained() -> tuple[float, Tensor]:
        net = copy.deepcopy(start)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        torch.manual_seed(4)
        for _ in range(100):
            optimizer.zero_grad()
            (net(x) - y).square().mean().backward()
            optimizer.step()
        return (net.eval()(x) - y).square().mean().item(), net[0].weight

    first_loss, first_weight = trained()
    assert torch.equal(first_weight, trained()[1])
    assert first_loss < 0.7 * (start.eval()(x) - y).square().mean().item()
