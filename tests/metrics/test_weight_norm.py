import pytest
import torch
from torch import nn

from supple import Learner
from supple.metrics.observe import observe
from supple.metrics.weights import DistanceFromInit, WeightNorm, joint_norm


def small_net():
    """Weights 2 and 3, 6; biases 1 and 2; squares 4 + 9 + 36 + 1 + 4 = 54."""
    network = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 2, bias=False), nn.BatchNorm1d(2, affine=False))
    network.register_parameter("scale", nn.Parameter(torch.tensor(2.0)))
    with torch.no_grad():
        network[0].weight.fill_(2.0)
        network[0].bias.fill_(1.0)
        network[2].weight.copy_(torch.tensor([[3.0], [6.0]]))
    return network


def test_norm_takes_every_trainable_parameter_and_no_buffer():
    network = small_net()
    network[3].running_mean += 100.0
    assert WeightNorm().measure(observe(network, torch.ones(2, 1))) == {"weight_norm": pytest.approx(54**0.5)}


def test_frozen_parameter_is_left_out():
    network = small_net()
    network[2].weight.requires_grad_(False)
    assert WeightNorm().measure(observe(network, torch.ones(2, 1))) == {"weight_norm": pytest.approx(3.0)}


def test_distance_is_from_the_weights_that_the_learner_began_with():
    network = small_net()
    learner = Learner(network, torch.optim.SGD(network.parameters(), 0.1))
    with torch.no_grad():
        network[0].bias += 3.0
        network[2].weight[1] -= 4.0
    observation = observe(network, torch.ones(2, 1), initial=learner.initial)
    assert DistanceFromInit().measure(observation) == {"distance_from_init": pytest.approx(5.0)}


def test_distance_needs_the_initial_weights():
    assert DistanceFromInit().measure(observe(small_net(), torch.ones(2, 1))) == {}


def test_norm_of_a_large_matrix_is_right_to_seven_digits():
    matrix = torch.randn(1500, 1500)
    assert joint_norm([matrix]) == pytest.approx(matrix.double().square().sum().sqrt().item(), rel=1e-7)


def test_norm_of_half_precision_is_not_rounded_to_half_precision():
    assert joint_norm([torch.ones(1001, dtype=torch.bfloat16)]) == pytest.approx(1001**0.5, rel=1e-6)
