"""ReLUDropout: ReLU, then inverted Dropout, as one operator."""

import math
import re

import pytest
import torch
from torch import nn

from supple import ReLUDropout

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
N = 2_000_000


@DTYPES
def test_positives_are_dropped_with_the_rate_and_scaled_up(dtype: torch.dtype):
    y = ReLUDropout(0.1)(torch.full((N,), 1.5, dtype=dtype))
    assert abs((y != 0).double().mean().item() - 0.9) < 5 * math.sqrt(0.09 / N)
    assert y.max() == torch.tensor(1.5, dtype=dtype) * (1 / (1 - 0.1))


def test_negatives_never_pass():
    assert not ReLUDropout(0.1)(-torch.rand(10_000)).any()


def test_training_equals_dropout_after_relu_with_the_same_mask():
    x = torch.randn(5000, requires_grad=True)
    twin = x.detach().clone().requires_grad_()
    y = ReLUDropout(0.3)(x)
    mask = (y != 0).detach() | (x <= 0)
    expected = torch.relu(twin) * mask / (1 - 0.3)
    y.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(x.grad, twin.grad)


def test_mean_and_variance_equal_those_of_torch_dropout_after_relu():
    x = torch.full((N,), 2.0, dtype=torch.float64)
    ours, theirs = ReLUDropout(0.3)(x), nn.Sequential(nn.ReLU(), nn.Dropout(0.3))(x)
    spread = 2.0 / 0.7 * math.sqrt(0.21 / N)
    assert abs(ours.mean() - theirs.mean()) < 5 * math.sqrt(2) * spread
    assert ours.max() == pytest.approx(theirs.max().item())


def test_eval_is_relu():
    x = torch.cat((torch.tensor([0.0, math.inf, -math.inf]), torch.randn(1000)))
    assert torch.equal(ReLUDropout(0.3).eval()(x), torch.relu(x))


@pytest.mark.parametrize("training", [True, False])
def test_rate_zero_is_relu(training: bool):
    x = torch.randn(1000)
    assert torch.equal(ReLUDropout(0.0).train(training)(x), torch.relu(x))


def test_rate_one_is_zero_with_zero_gradient():
    x = torch.randn(1000, requires_grad=True)
    y = ReLUDropout(1.0)(x)
    y.sum().backward()
    assert not y.any()
    assert not x.grad.any()


def test_default_is_that_of_torch_dropout():
    assert repr(ReLUDropout()) == "ReLUDropout(drop_positive=0.5)"
    assert repr(ReLUDropout(0.25, inplace=True)) == "ReLUDropout(drop_positive=0.25, inplace=True)"


@pytest.mark.parametrize("drop_positive", [-1.0, 1.5, math.nan])
def test_constructor_refuses_a_rate_outside_the_unit_interval(drop_positive: float):
    message = f"ReLUDropout.drop_positive is the drop rate of positive values, in [0, 1]; got {drop_positive}."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        ReLUDropout(drop_positive)
