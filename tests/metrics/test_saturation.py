import torch
from known import channel_net, unit_net
from torch import nn

from supple import AID, CReLU
from supple.metrics.observe import observe
from supple.metrics.units import SaturatedShare

# Signs of four units over four samples: never, always, half the time, and zero throughout, which is never above zero.
INPUTS = torch.tensor([[-1.0, 1.0, 1.0, 0.0], [-2.0, 2.0, -1.0, 0.0], [-1.0, 3.0, 1.0, 0.0], [-4.0, 1.0, -2.0, 0.0]])


def share(network, inputs):
    return SaturatedShare().measure(observe(network, inputs))["saturated_share"]


def test_units_that_are_always_or_never_positive_are_saturated():
    assert share(unit_net(4, nn.ReLU()), INPUTS) == 0.75


def test_activation_does_not_change_the_share():
    for activation, expansion in ((AID(0.9), 1), (nn.Tanh(), 1), (CReLU(), 2), (nn.ReLU(inplace=True), 1)):
        assert share(unit_net(4, activation, expansion), INPUTS) == 0.75


def test_one_other_position_saves_a_channel():
    images = torch.ones(3, 2, 4, 4)
    assert share(channel_net(2, nn.ReLU()), images) == 1.0
    images[2, 1, 0, 3] = -1.0
    assert share(channel_net(2, nn.ReLU()), images) == 0.5
