"""Arguments of the layers: their defaults, how a layer shows them, and what is said of wrong ones."""

import math
import re

import numpy as np
import pytest
import torch

import supple.functional as SF
from supple import AID, CReLU, DropReLU, Fourier, IntervalDropout, ReLUDropout

RULES = {
    AID: (SF.aid, "AID.p is the probability of the ReLU branch"),
    DropReLU: (SF.drop_relu, "DropReLU.relu_prob is the probability of the ReLU branch"),
    ReLUDropout: (SF.relu_dropout, "ReLUDropout.drop_positive is the drop rate of positive values"),
}


@pytest.mark.parametrize(
    ("layer", "shown"),
    [
        (AID(), "AID(p=0.9)"),
        (AID(1), "AID(p=1)"),
        (AID(0.7, inplace=True), "AID(p=0.7, inplace=True)"),
        (DropReLU(), "DropReLU(relu_prob=0.95)"),
        (DropReLU(0.5, inplace=True), "DropReLU(relu_prob=0.5, inplace=True)"),
        (ReLUDropout(), "ReLUDropout(drop_positive=0.5)"),
        (ReLUDropout(0.25, inplace=True), "ReLUDropout(drop_positive=0.25, inplace=True)"),
        (IntervalDropout([0], [0.9, 0.1]), "IntervalDropout(edges=(0.0,), drop=(0.9, 0.1))"),
        (IntervalDropout((), (0.5,), inplace=True), "IntervalDropout(edges=(), drop=(0.5,), inplace=True)"),
    ],
    ids=str,
)
def test_layer_shows_its_arguments_and_defaults(layer, shown):
    assert repr(layer) == shown


@pytest.mark.parametrize("layer", [CReLU(), Fourier()], ids=str)
def test_expansion_is_how_many_times_as_wide_the_output_is(layer):
    assert layer(torch.randn(2, 5, 3)).shape == (2, 5 * layer.expansion, 3)


@pytest.mark.parametrize("half", [np.float32(0.5), np.float64(0.5), torch.tensor(0.5)], ids=["32", "64", "torch"])
def test_scalars_of_numpy_and_torch_and_whole_numbers_are_numbers(half):
    assert AID(half).p == 0.5
    assert AID(np.int64(1)).p == 1
    assert IntervalDropout((half,), (half, 1)).edges == (0.5,)
    x = torch.randn(1000)
    assert torch.equal(SF.aid(x, half, training=False), SF.aid(x, 0.5, training=False))


@pytest.mark.parametrize("layer", RULES)
@pytest.mark.parametrize("value", ["0.9", None, (0.9,)], ids=repr)
def test_what_is_no_number_is_refused_with_the_name_of_the_argument(layer, value):
    with pytest.raises(TypeError, match=rf"^{RULES[layer][1]}, a number in \[0, 1\]; got .*, a "):
        layer(value)


@pytest.mark.parametrize("layer", RULES)
@pytest.mark.parametrize("value", [-0.1, 1.2, math.nan, math.inf])
def test_probability_outside_the_unit_interval_is_refused_by_layer_and_function(layer, value):
    function, rule = RULES[layer]
    for call in (layer, lambda v: function(torch.randn(3), v)):
        with pytest.raises(ValueError, match=f"^{re.escape(f'{rule}, in [0, 1]; got {value}.')}$"):
            call(value)


@pytest.mark.parametrize(
    ("edges", "drop", "field"),
    [("0", (0.9, 0.1), "edges"), (0.0, (0.9, 0.1), "edges"), ((0.0,), 0.9, "drop"), ((0.0,), ("0.9", "0.1"), "drop")],
)
def test_what_is_no_sequence_of_numbers_is_refused_with_the_name_of_the_argument(edges, drop, field):
    with pytest.raises(TypeError, match=rf"^IntervalDropout\.{field} must be a sequence of numbers"):
        IntervalDropout(edges, drop)


SORTED = "edges must be sorted, each larger than the one before; got {}."
FINITE = "edges must be finite numbers (the outer intervals are open); got {}."
COUNT = "drop needs one rate per interval: 1 edges make 2 intervals; got {} rates, {}."


@pytest.mark.parametrize(
    ("edges", "drop", "said"),
    [
        ((1.0, 0.0), (0.5,) * 3, SORTED),
        ((0.0, 0.0), (0.5,) * 3, SORTED),
        ((0.0, math.inf), (0.5,) * 3, FINITE),
        ((math.nan,), (0.5,) * 2, FINITE),
        ((0.0,), (), COUNT.format(0, ())),
        ((0.0,), (0.1,), COUNT.format(1, (0.1,))),
        ((0.0,), (0.1, 0.1, 0.1), COUNT.format(3, (0.1, 0.1, 0.1))),
        ((0.0,), (0.1, 1.5), "drop[1] is a drop rate, in [0, 1]; got 1.5."),
        ((0.0,), (math.nan, 0.5), "drop[0] is a drop rate, in [0, 1]; got nan."),
    ],
    ids=str,
)
def test_wrong_edges_and_rates_are_refused_by_layer_and_function(edges, drop, said):
    for call in (IntervalDropout, lambda edges, drop: SF.interval_dropout(torch.randn(3), edges, drop)):
        with pytest.raises(ValueError, match=f"^{re.escape('IntervalDropout.' + said.format(edges))}$"):
            call(edges, drop)
