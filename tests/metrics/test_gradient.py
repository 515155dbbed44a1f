import pytest
import torch
from torch import nn

from supple.metrics.observe import observe
from supple.metrics.weights import DeadGradientShare, GradientNorm


def trained(network, inputs):
    network(inputs).sum().backward()
    return observe(network, inputs)


def test_norm_is_that_of_all_gradients_together():
    network = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 1))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(1.0)
    # x = (1, 2), z = 4, out = 5: gradients 1, 2 and 1 in the first layer, 4 and 1 in the second.
    observation = trained(network, torch.tensor([[1.0, 2.0]]))
    assert GradientNorm().measure(observation) == {"gradient_norm": pytest.approx((1 + 4 + 1 + 16 + 1) ** 0.5)}


def test_unit_that_never_fires_gets_no_gradient():
    network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    with torch.no_grad():
        network[0].weight.abs_()
        network[0].bias.copy_(torch.tensor([1.0, -100.0, 1.0, -100.0]))
    observation = trained(network, torch.rand(6, 3))
    assert DeadGradientShare().measure(observation) == {"dead_gradient_share": pytest.approx(2 / 6)}


def test_dead_channel_of_a_convolution_is_counted():
    network = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 1))
    with torch.no_grad():
        network[0].weight.abs_()
        network[0].bias.copy_(torch.tensor([1.0, 1.0, -100.0]))
    observation = trained(network, torch.rand(2, 1, 4, 4))
    assert DeadGradientShare().measure(observation) == {"dead_gradient_share": 0.25}


def test_pixel_that_is_always_black_makes_no_unit_dead():
    network = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1))
    inputs = torch.rand(5, 3)
    inputs[:, 1] = 0.0
    assert DeadGradientShare().measure(trained(network, inputs)) == {"dead_gradient_share": 0.0}


def test_without_gradients_there_is_nothing_to_say():
    observation = observe(nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1)), torch.rand(5, 3))
    assert GradientNorm().measure(observation) == {}
    assert DeadGradientShare().measure(observation) == {}
