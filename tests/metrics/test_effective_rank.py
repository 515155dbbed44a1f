import math

import pytest
import torch
from torch import nn

from supple.metrics.observe import observe
from supple.metrics.rank import EffectiveRank, srank


def ranks_of(features, **fields):
    """Of a network whose penultimate features are relu of its inputs."""
    network = nn.Sequential(nn.ReLU(), nn.Linear(features.shape[1], 2))
    return EffectiveRank(**fields).measure(observe(network, features))


@pytest.mark.parametrize("width", [1, 2, 7, 50, 99, 100, 101, 200, 300])
def test_identity_has_srank_ceil_of_99_percent_and_full_entropy_rank(width):
    got = ranks_of(torch.eye(width))
    assert got["srank"] == math.ceil(width * 99 / 100)
    assert got["effective_rank"] == pytest.approx(width)


def test_zero_features_have_rank_zero():
    assert ranks_of(-torch.ones(6, 4)) == {"srank": 0.0, "effective_rank": 0.0}


def test_threshold_that_is_met_exactly_is_enough():
    assert srank(torch.tensor([9.0, 1.0], dtype=torch.float64), delta=0.1) == 1.0
    assert srank(torch.full((4,), 0.7, dtype=torch.float64), delta=0.25) == 3.0  # rounded, 2.1 / 2.8 falls below 3/4


def test_features_that_are_not_finite_have_no_rank():
    features = torch.ones(3, 3)
    features[1, 1] = torch.nan
    assert math.isnan(ranks_of(features)["srank"])


def test_delta_outside_its_range_is_refused():
    with pytest.raises(ValueError, match=r"EffectiveRank.delta is the share of the sum left out, in \(0, 1\); got 1.0"):
        EffectiveRank(delta=1.0)
