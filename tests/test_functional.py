"""The functions under the layers: arguments and their errors, generators, the eval forms, p in every guise."""

import sys
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

import supple.functional as SF

NAN, INF = float("nan"), float("inf")
FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "aid": lambda x, **kw: SF.aid(x, 0.7, **kw),
    "interval_dropout": lambda x, **kw: SF.interval_dropout(x, (-1.0, 0.5), (0.2, 0.9, 0.4), **kw),
    "drop_relu": lambda x, **kw: SF.drop_relu(x, 0.7, **kw),
    "relu_dropout": lambda x, **kw: SF.relu_dropout(x, 0.4, **kw),
}
EVERY = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())


@EVERY
def test_generator_decides_the_mask_and_leaves_the_default_stream_alone(function):
    x, generator = torch.randn(1000), torch.Generator().manual_seed(5)
    before = torch.get_rng_state()
    first, again, other = (function(x, generator=torch.Generator().manual_seed(seed)) for seed in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(function(x, generator=generator), first)
    assert not torch.equal(function(x, generator=generator), first)
    assert torch.equal(before, torch.get_rng_state())


@EVERY
def test_training_is_the_default(function):
    x = torch.randn(1000)
    torch.manual_seed(1)
    default = function(x)
    torch.manual_seed(1)
    assert torch.equal(default, function(x, training=True))
    assert not torch.equal(default, function(x, training=False))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_types_round_the_eval_product_once_and_not_the_rate(dtype):
    x = (torch.randn(1000).sign() * (torch.rand(1000) + 0.5)).to(dtype)
    exact = x.double() * torch.where(x >= 0, 0.9, 0.1).double()
    error = (SF.aid(x, 0.9, False).double() - exact).abs() / exact.abs()
    # Half a unit in the last place; rate and product are float32 inside, hence the little more.
    assert error.max() <= 0.5 * torch.finfo(dtype).eps + 2 * torch.finfo(torch.float32).eps


def test_defaults_are_those_of_the_papers_and_a_rate_of_one_drops_all():
    x = torch.randn(1000)
    assert torch.equal(SF.aid(x, training=False), SF.aid(x, 0.9, False))
    assert torch.equal(SF.drop_relu(x, training=False), SF.drop_relu(x, 0.95, False))
    assert not SF.relu_dropout(x, 1.0).any()


@pytest.mark.parametrize("value", [1, Fraction(1, 2), int(sys.float_info.max), np.float32(1), torch.tensor(1)], ids=str)
def test_what_a_float_can_stand_for_is_a_number(value):
    assert SF.is_number(value)


@pytest.mark.parametrize(
    "value", [True, 10**400, "1", float, np.bool_(1), torch.tensor(1j), np.ones(1), torch.ones(1), None], ids=str
)
def test_what_no_float_can_stand_for_is_no_number(value):
    assert not SF.is_number(value)


def test_a_slope_of_zero_gives_zero_at_infinity_and_nan_at_nan():
    x = torch.tensor([INF, -INF, NAN])
    torch.testing.assert_close(SF.aid(x, 1.0, False), torch.tensor([INF, 0.0, NAN]), equal_nan=True)
    torch.testing.assert_close(SF.aid(x, 0.0, False), torch.tensor([0.0, -INF, NAN]), equal_nan=True)


def test_edges_and_rates_may_be_lists_and_arrays():
    x = torch.randn(1000)
    outputs = []
    for make in (tuple, list, np.array):
        torch.manual_seed(1)
        outputs.append(SF.interval_dropout(x, make((-1, 0.5)), make((0.2, 0.9, 0.4))))
    assert torch.equal(outputs[0], outputs[1])
    assert torch.equal(outputs[0], outputs[2])


def test_no_edges_are_plain_dropout_without_rescaling():
    x = torch.randn(1000)
    y = SF.interval_dropout(x, (), (0.25,))
    assert torch.equal(y[y != 0], x[y != 0])
    assert torch.equal(SF.interval_dropout(x, (), (0.25,), training=False), 0.75 * x)
