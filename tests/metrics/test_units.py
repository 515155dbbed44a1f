"""Dormant ratio, saturated share and sign entropy by hand: z of the only hidden layer is the input itself."""

import math

import pytest
import torch
from torch import nn

from supple import AID, CReLU, Fourier
from supple.metrics.observe import observe
from supple.metrics.units import ActiveFraction, DormantRatio, SaturatedShare, SignEntropy, dormant_scores


def seen(inputs, activation=None):
    """What is observed of a network whose pre-activations are these rows."""
    activation, width = activation or nn.ReLU(), inputs.shape[1]
    first = nn.Linear(width, width, bias=False)
    nn.init.eye_(first.weight)
    return observe(nn.Sequential(first, activation, nn.Linear(width * getattr(activation, "expansion", 1), 1)), inputs)


def dormant(inputs, activation=None, **fields):
    return DormantRatio(**fields).measure(seen(inputs, activation))


def test_unit_whose_score_is_tau_itself_is_dormant():
    observation = seen(torch.tensor([[0.5, 1.0, 1.5]]))
    tau = dormant_scores(observation.sites[0].magnitude)[1].item()
    (ratio,) = DormantRatio(taus=(tau,)).measure(observation).values()
    assert ratio == pytest.approx(2 / 3)


def test_layer_that_is_zero_everywhere_is_dormant_as_a_whole_with_relu_and_not_with_aid():
    inputs = -torch.rand(3, 5) - 0.1
    assert set(dormant(inputs).values()) == {1.0}
    assert dormant(inputs, AID(0.9))["dormant_ratio"] == 0.0


def test_unit_a_hundred_millionth_as_strong_as_its_layer_counts_as_silent():
    # scores 0.9e-8 and 1.5e-8
    assert dormant(torch.tensor([[1.0, 1.0, 0.6e-8]]))["dormant_ratio"] == pytest.approx(1 / 3)
    assert dormant(torch.tensor([[1.0, 1.0, 1.0e-8]]))["dormant_ratio"] == 0.0


def test_score_of_a_layer_hardly_above_zero_stays_finite():
    assert dormant_scores(torch.full((3,), 1e-9, dtype=torch.float64)).tolist() == pytest.approx([0.5] * 3)


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.ReLU(inplace=True), AID(0.9), nn.Tanh(), CReLU(), Fourier()])
def test_signs_before_the_activation_decide_saturation_and_entropy(activation):
    # Positive never, always, one time in four, and zero throughout, which is never above zero. H(1/4) = 2 - 3/4 log2 3.
    rows = [[-1.0, 1.0, 1.0, 0.0], [-2.0, 2.0, -1.0, 0.0], [-1.0, 3.0, -1.0, 0.0], [-4.0, 1.0, -2.0, 0.0]]
    observation = seen(torch.tensor(rows), activation)
    assert SaturatedShare().measure(observation) == {"saturated_share": 0.75}
    entropy = pytest.approx((2 - 0.75 * math.log2(3)) / 4, abs=1e-12)
    assert SignEntropy().measure(observation) == {"sign_entropy": entropy, "sign_bias": 0.875}


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("metric", [DormantRatio(), SaturatedShare(), SignEntropy(), ActiveFraction()])
def test_units_of_a_network_that_has_diverged_have_no_numbers(metric, value):
    observation = seen(torch.tensor([[value, 1.0], [1.0, 1.0]]))
    assert all(map(math.isnan, metric.measure(observation).values()))


def test_layer_of_one_unit_is_measured():
    assert SignEntropy().measure(seen(torch.tensor([[1.0], [-2.0]]))) == {"sign_entropy": 1.0, "sign_bias": 0.0}


def active(inputs, activation=None):
    return ActiveFraction().measure(seen(inputs, activation))["active_fraction"]


def test_activations_without_zeros_are_active_and_tanh_is_inactive_if_it_is_saturated():
    inputs = torch.tensor([[-1.0, 2.6], [2.7, -3.0]])  # tanh 2.6467 is 0.99
    assert active(inputs, AID(0.9)) == 1.0
    assert active(inputs, CReLU()) == 0.5
    assert active(inputs, nn.Tanh()) == 0.5


def test_active_fraction_of_no_activity_of_maps_and_of_what_is_not_finite():
    assert active(-torch.ones(1, 3)) == 0.0
    network = nn.Sequential(nn.Conv2d(1, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)).half()
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([1.0, -1.0]).view(2, 1, 1, 1))
        network[0].bias.zero_()
    image = torch.tensor([1.0, 2.0, -1.0, 3.0]).half().view(1, 1, 2, 2)  # 3 of 4 positions, and 1 of 4
    assert ActiveFraction().measure(observe(network, image)) == {"active_fraction": 0.5}
    assert math.isnan(active(torch.tensor([[torch.nan, 1.0]])))
