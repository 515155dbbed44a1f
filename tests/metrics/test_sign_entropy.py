import math

import pytest
import torch
from known import channel_net, unit_net
from torch import nn

from supple import CReLU, Fourier
from supple.metrics.observe import observe
from supple.metrics.units import SignEntropy


def signs(network, inputs):
    return SignEntropy().measure(observe(network, inputs))


def test_unit_of_constant_sign_has_no_entropy_and_full_bias():
    assert signs(unit_net(1, nn.ReLU()), torch.ones(4, 1)) == {"sign_entropy": 0.0, "sign_bias": 1.0}
    assert signs(unit_net(1, nn.ReLU()), -torch.ones(4, 1)) == {"sign_entropy": 0.0, "sign_bias": 1.0}


def test_symmetric_unit_has_an_entropy_of_one_bit_and_no_bias():
    assert signs(unit_net(1, nn.ReLU()), torch.tensor([[1.0], [-2.0]])) == {"sign_entropy": 1.0, "sign_bias": 0.0}


def test_zero_is_not_above_zero():
    assert signs(unit_net(1, nn.ReLU()), torch.tensor([[1.0], [0.0]])) == {"sign_entropy": 1.0, "sign_bias": 0.0}
    assert signs(unit_net(1, nn.ReLU()), torch.tensor([[-1.0], [0.0]])) == {"sign_entropy": 0.0, "sign_bias": 1.0}


def test_entropy_of_one_in_four_is_the_textbook_value():
    # H(1/4) = 2 - 3/4 log2 3 = 0.811278...; with a balanced unit beside it the mean is 0.905639...
    inputs = torch.tensor([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [-1.0, -1.0]])
    got = signs(unit_net(2, nn.ReLU()), inputs)
    assert got["sign_entropy"] == pytest.approx((2 - 0.75 * math.log2(3) + 1) / 2, abs=1e-12)
    assert got["sign_bias"] == 0.25


@pytest.mark.parametrize(("activation", "expansion"), [(nn.Sigmoid(), 1), (CReLU(), 2), (Fourier(), 2)])
def test_pre_activation_decides_whatever_the_activation(activation, expansion):
    inputs = torch.tensor([[1.0, 1.0], [-1.0, 1.0]])
    assert signs(unit_net(2, activation, expansion), inputs) == {"sign_entropy": 0.5, "sign_bias": 0.5}


def test_channel_counts_batch_and_space():
    images = -torch.ones(2, 1, 2, 4)
    images[0, 0, 1, :2] = 1.0  # 2 of 16 positive: q = 1/8
    entropy = -(1 / 8) * math.log2(1 / 8) - (7 / 8) * math.log2(7 / 8)
    assert signs(channel_net(1, nn.ReLU()), images)["sign_entropy"] == pytest.approx(entropy, abs=1e-12)


def test_norm_before_the_activation_is_seen_through():
    network = unit_net(2, nn.ReLU())
    network = nn.Sequential(network[0], nn.BatchNorm1d(2), network[1], network[2])
    network[1].running_mean += 10.0  # z = (x - 10) / 1: every input of 1 to 9 becomes negative
    inputs = torch.tensor([[1.0, 9.0], [5.0, 19.0]])
    assert signs(network, inputs)["sign_entropy"] == 0.5


def test_units_weigh_alike_whatever_their_layer():
    # Four saturated units, then one balanced: 1/5, not the mean of 0 and 1.
    first = unit_net(4, nn.ReLU())
    second = nn.Linear(4, 1)
    nn.init.ones_(second.weight)
    nn.init.constant_(second.bias, -6.0)
    inputs = torch.tensor([[1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0]])  # sums 4 and 8
    network = nn.Sequential(first[0], first[1], second, nn.ReLU(), nn.Linear(1, 1))
    assert signs(network, inputs)["sign_entropy"] == pytest.approx(0.2)
