"""Norms of weights and gradients by hand."""

import pytest
import torch
from torch import nn

from supple.metrics.observe import observe
from supple.metrics.weights import DeadGradientShare, DistanceFromInit, GradientNorm, WeightNorm, joint_norm


def ones():
    network = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 1), nn.BatchNorm1d(1, affine=False)).eval()
    for parameter in network.parameters():
        nn.init.ones_(parameter)
    return network


def test_norms_take_every_trainable_parameter_and_no_buffer():
    network = ones()
    network[3].running_mean += 100.0
    network[2].bias.requires_grad_(False)
    network[3].eps = 0.0
    # x = (1, 2), z = 4: gradients 1, 2 and 1 in the first layer, 4 in the second.
    network(torch.tensor([[1.0, 2.0]])).sum().backward()
    observation = observe(network, torch.tensor([[1.0, 2.0]]))
    assert WeightNorm().measure(observation) == {"weight_norm": pytest.approx(2.0)}
    assert GradientNorm().measure(observation) == {"gradient_norm": pytest.approx((1 + 4 + 1 + 16) ** 0.5)}


def test_without_gradients_and_initial_weights_there_is_nothing_to_say():
    observation = observe(ones(), torch.rand(5, 2))
    for metric in (GradientNorm(), DeadGradientShare(), DistanceFromInit()):
        assert metric.measure(observation) == {}


@pytest.mark.parametrize("tensor", [torch.randn(999, 999), torch.ones(999, dtype=torch.half)], ids=["large", "half"])
def test_norm_is_right_to_seven_digits(tensor):
    assert joint_norm([tensor]) == pytest.approx(tensor.double().square().sum().sqrt().item(), rel=1e-7)
