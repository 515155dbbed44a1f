import math

import pytest
import torch
from torch import nn

from supple.metrics.base import measure
from supple.metrics.observe import observe
from supple.metrics.rank import (
    EffectiveRank,
    FeatureRank,
    PCARank,
    StableRank,
    feature_rank,
    pca_rank,
    srank,
    stable_rank,
)


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


def all_ranks(features):
    network = nn.Sequential(nn.ReLU(), nn.Linear(features.shape[1], 2, dtype=features.dtype))
    return measure([StableRank(), PCARank(), FeatureRank()], observe(network, features))


def test_large_values_do_not_overflow_in_their_squares():
    assert pca_rank(torch.tensor([1e200, 1e200], dtype=torch.float64), delta=0.01) == 2.0


def test_ranks_that_share_their_name_elsewhere_differ_on_singular_values_3_and_1():
    values = torch.tensor([3.0, 1.0], dtype=torch.float64)
    assert stable_rank(values) == pytest.approx(10 / 9)
    assert pca_rank(values) == 2.0  # 9/10 of the squares lie in the first
    assert pca_rank(values, delta=0.1) == 1.0
    assert srank(values, delta=0.1) == 2.0  # 3/4 of the values do
    assert feature_rank(values, 10_000) == 1.0  # 0.03 and 0.01, which is not above the threshold
    assert math.isnan(feature_rank(torch.tensor([1.0, torch.nan]), 4))
    assert pca_rank(torch.tensor([0.985, 0.015]).sqrt()) == 2.0  # the first explains less than 99%
    assert feature_rank(values, 9_999) == 2.0


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_scale_and_order_of_features_move_only_the_rank_with_a_threshold(scale):
    features = torch.rand(9, 6, dtype=torch.float64)
    plain = all_ranks(features)
    turned = all_ranks(scale * features.flip(0)[:, [3, 1, 0, 5, 4, 2]])
    assert turned["stable_rank"] == pytest.approx(plain["stable_rank"])
    assert turned["pca_rank"] == plain["pca_rank"]
    assert turned["feature_rank"] == (0.0 if scale < 1 else 6.0)


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        (-torch.ones(3, 4), 0.0),
        (torch.ones(1, 4), 1.0),
        (torch.ones(5, 4).bfloat16(), 1.0),
        (torch.full((3, 3), torch.nan), math.nan),
        (torch.full((3, 3), torch.inf), math.nan),
    ],
    ids=["zero", "one sample", "one direction", "nan", "inf"],
)
def test_ranks_of_features_that_are_nothing_or_one_thing(features, expected):
    assert all_ranks(features) == dict.fromkeys(
        ["stable_rank", "pca_rank", "feature_rank"], pytest.approx(expected, nan_ok=True)
    )
