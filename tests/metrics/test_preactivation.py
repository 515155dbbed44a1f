"""Quartiles and histogram of the last hidden layer's pre-activations, by hand."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from supple.metrics.base import measure
from supple.metrics.observe import observe
from supple.metrics.preactivation import PreactivationHistogram, PreactivationQuartiles, histogram, quantiles


def test_last_hidden_site_is_measured_before_its_activation_and_an_output_activation_is_not():
    network = nn.Sequential(nn.Linear(1, 3), nn.Tanh(), nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Linear(3, 1))
    nn.init.zeros_(network[2].weight)
    network[2].bias.data.copy_(torch.tensor([-4.0, 0.0, 4.0]))
    observation = observe(nn.Sequential(*network, nn.Sigmoid()), torch.randn(2, 1))
    assert [site.name for site in observation.sites] == ["1", "3"]
    # -4, -4, 0, 0, 4, 4; bins of width 2: [-4, -2), [-2, 0), [0, 2), [2, 4]
    assert measure([PreactivationQuartiles(), PreactivationHistogram(num_bins=4)], observation) == {
        "preactivation_q1": -3.0,
        "preactivation_q2": 0.0,
        "preactivation_q3": 3.0,
        "preactivation_low": -4.0,
        "preactivation_high": 4.0,
        **{
            f"preactivation_bin_{place:02d}": pytest.approx(share)
            for place, share in enumerate([1 / 3, 0, 1 / 3, 1 / 3])
        },
    }


def test_histogram_of_one_value_lies_in_the_first_bin():
    observation = observe(nn.Sequential(nn.ReLU(), nn.Linear(2, 1)), torch.full((3, 2), 0.5))
    got = PreactivationHistogram(num_bins=2).measure(observation)
    assert (got["preactivation_bin_00"], got["preactivation_bin_01"]) == (1.0, 0.0)


def test_bins_may_be_narrow_or_one_and_without_preactivations_there_are_none():
    assert histogram(torch.tensor([0.0, 0.1, 0.4, 0.5]), 2) == (0.0, 0.5, [0.5, 0.5])
    observation = observe(nn.Sequential(nn.ReLU(), nn.Linear(2, 1)), torch.ones(3, 2))
    assert PreactivationHistogram(num_bins=1).measure(observation)["preactivation_bin_00"] == 1.0
    assert PreactivationHistogram().measure(replace(observation, preactivations=None)) == {}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_in_no_bin_and_have_no_quartiles_if_one_is_no_number(value):
    values = torch.tensor([value, 0.0, 1.0, 2.0, 3.0])
    assert all(map(math.isnan, histogram(values, 2)[2]))
    assert all(math.isnan(quartile) == math.isnan(value) for quartile in quantiles(values, (0.25, 0.5, 0.75)))
