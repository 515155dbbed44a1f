"""AID_p and its general form, Algorithm 1: a rate that no dtype rounds, the two-interval form, edges."""

import math

import pytest
import torch

from supple import AID, IntervalDropout

INF = float("inf")
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
MODES = pytest.mark.parametrize("training", [True, False])
N = 2_000_000  # tells a rate of 0.9 from its bfloat16 neighbour 0.8984: 5 sigma = 0.0011


@DTYPES
def test_keep_rate_of_p_09_is_not_rounded_to_the_dtype(dtype):
    rate, sigma = (AID(0.9)(torch.ones(N, dtype=dtype)) != 0).double().mean().item(), math.sqrt(0.09 / N)
    assert abs(rate - 0.9) < 5 * sigma
    assert abs(rate - torch.tensor(0.9, dtype=torch.bfloat16).item()) > 5 * sigma


@MODES
@pytest.mark.parametrize("drop", [(0.9, 1.0 - 0.9), (0.9, 0.1), (0.7, 0.3), (0.99, 0.01), (0.3, 0.7)])
def test_aid_is_the_two_interval_form(drop, training):
    x, outputs = torch.cat((torch.tensor([0.0, -0.0, INF, -INF]), torch.randn(10_000))), []
    for layer in (AID(drop[0]), IntervalDropout((0.0,), drop)):
        torch.manual_seed(1)
        outputs.append(layer.train(training)(x))
    assert torch.equal(*outputs)


@MODES
def test_edges_beyond_the_range_of_the_dtype_leave_one_interval_empty(training):
    x = torch.tensor([-6e4, 0.0, 6e4], dtype=torch.float16)
    assert torch.equal(IntervalDropout((-1e5, 1e5), (1.0, 0.0, 1.0)).train(training)(x), x)
