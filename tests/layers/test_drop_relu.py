"""DropReLU: the identity or ReLU per element, a leaky ReLU in evaluation."""

import math
import re

import pytest
import torch
import torch.nn.functional as F

from supple import DropReLU

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
N = 2_000_000


@DTYPES
def test_negatives_pass_with_probability_one_minus_relu_prob(dtype: torch.dtype):
    passed = (DropReLU(0.9)(torch.full((N,), -1.5, dtype=dtype)) != 0).double().mean().item()
    assert abs(passed - 0.1) < 5 * math.sqrt(0.09 / N)


@pytest.mark.parametrize("training", [True, False])
def test_positives_always_pass_unchanged(training: bool):
    x = torch.rand(10_000) + 1e-6
    assert torch.equal(DropReLU(0.3).train(training)(x), x)


def test_eval_is_a_leaky_relu():
    x = torch.randn(1000)
    torch.testing.assert_close(DropReLU(0.7).eval()(x), F.leaky_relu(x, 1 - 0.7))


@pytest.mark.parametrize("training", [True, False])
def test_relu_prob_one_is_relu_and_zero_is_the_identity(training: bool):
    x = torch.cat((torch.tensor([0.0, math.inf, -math.inf]), torch.randn(1000)))
    assert torch.equal(DropReLU(1.0).train(training)(x), torch.relu(x))
    assert torch.equal(DropReLU(0.0).train(training)(x), x)


def test_default_is_that_of_its_paper():
    assert repr(DropReLU()) == "DropReLU(relu_prob=0.95)"
    assert repr(DropReLU(0.5, inplace=True)) == "DropReLU(relu_prob=0.5, inplace=True)"


@pytest.mark.parametrize("relu_prob", [-1.0, 1.5, math.nan])
def test_constructor_refuses_relu_prob_outside_the_unit_interval(relu_prob: float):
    message = f"DropReLU.relu_prob is the probability of the ReLU branch, in [0, 1]; got {relu_prob}."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        DropReLU(relu_prob)
