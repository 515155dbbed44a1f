import math

import pytest
import torch
from torch import nn

from supple.metrics.observe import observe
from supple.metrics.rank import EffectiveRank, entropy_rank, singular_values, srank


def ranks_of(features, **fields):
    """Of a network whose penultimate features are relu of its inputs."""
    network = nn.Sequential(nn.ReLU(), nn.Linear(features.shape[1], 2))
    return EffectiveRank(**fields).measure(observe(network, features))


@pytest.mark.parametrize("width", [1, 2, 7, 50, 99, 100, 101, 200, 300])
def test_identity_has_srank_ceil_of_99_percent_and_full_entropy_rank(width):
    got = ranks_of(torch.eye(width))
    assert got["srank"] == math.ceil(width * 99 / 100)
    assert got["effective_rank"] == pytest.approx(width)


def test_rank_one_features_have_rank_one():
    features = torch.outer(torch.arange(1.0, 301.0), torch.arange(1.0, 201.0))  # whole numbers: float32 holds them all
    assert ranks_of(features) == {"srank": 1.0, "effective_rank": pytest.approx(1.0, abs=1e-9)}


def test_zero_features_have_rank_zero():
    assert ranks_of(-torch.ones(6, 4)) == {"srank": 0.0, "effective_rank": 0.0}


def test_singular_values_count_and_not_their_squares():
    # 6, 3, 1: shares 0.6, 0.9, 1.0. By squares (36, 9, 1 of 46) the shares would be 0.78, 0.978, 1.0.
    features = torch.diag(torch.tensor([6.0, 3.0, 1.0]))
    assert [ranks_of(features, delta=delta)["srank"] for delta in (0.41, 0.39, 0.11, 0.09)] == [1, 2, 2, 3]


def test_threshold_that_is_met_exactly_is_enough():
    assert srank(torch.tensor([9.0, 1.0], dtype=torch.float64), delta=0.1) == 1.0
    assert srank(torch.full((4,), 0.7, dtype=torch.float64), delta=0.25) == 3.0  # rounded, 2.1 / 2.8 falls below 3/4


def test_entropy_rank_of_half_and_two_quarters_is_two_to_the_three_halves():
    assert entropy_rank(torch.tensor([2.0, 1.0, 1.0], dtype=torch.float64)) == pytest.approx(2**1.5)


@pytest.mark.parametrize("shape", [(40, 12), (12, 40), (30, 30), (1, 5)])
def test_singular_values_are_those_of_an_svd(shape):
    features = torch.randn(shape)
    expected = torch.linalg.svdvals(features.double())
    # Roots of a Gram matrix's eigenvalues: right to the root of float64's rounding.
    assert torch.allclose(singular_values(features), expected, rtol=0, atol=1e-7 * expected[0].item())


def test_features_are_what_the_last_layer_reads():
    network = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    inputs = torch.randn(20, 6)
    expected = network[:4](inputs).detach()
    assert torch.equal(observe(network, inputs).features_ND, expected)


def test_features_that_are_not_finite_have_no_rank():
    features = torch.ones(3, 3)
    features[1, 1] = torch.nan
    assert math.isnan(ranks_of(features)["srank"])


def test_delta_outside_its_range_is_refused():
    with pytest.raises(ValueError, match=r"EffectiveRank.delta is the share of the sum left out, in \(0, 1\); got 1.0"):
        EffectiveRank(delta=1.0)
