"""Norms of weights and gradients, GraMa's ratio and the deviation from isometry by hand."""

import math

import pytest
import torch
from torch import nn

from supple.metrics import weights
from supple.metrics.observe import observe
from written import holding


def ones():
    network = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 1), nn.BatchNorm1d(1, affine=False)).eval()
    for parameter in network.parameters():
        nn.init.ones_(parameter)
    return network


def test_without_gradients_and_initial_weights_there_is_nothing_to_say():
    observation = observe(ones(), torch.rand(5, 2))
    for metric in (weights.GradientNorm(), weights.DeadGradientShare(), weights.DistanceFromInit()):
        assert metric.measure(observation) == {}


@pytest.mark.parametrize("tensor", [torch.randn(999, 999), torch.ones(999, dtype=torch.half)], ids=["large", "half"])
def test_norm_is_right_to_seven_digits(tensor):
    assert weights.joint_norm([tensor]) == pytest.approx(tensor.double().square().sum().sqrt().item(), rel=1e-7)


def grama(gradient, threshold=0.01):
    """Of a network whose hidden layer has this gradient; the output layer's does not count."""
    outputs, inputs = len(gradient), len(gradient[0])
    network = nn.Sequential(nn.Linear(inputs, outputs), nn.ReLU(), nn.Linear(outputs, 2))
    network[0].weight.grad, network[2].weight.grad = torch.tensor(gradient), torch.zeros(2, outputs)
    return weights.GramaRatio(threshold=threshold).measure(observe(network, torch.rand(3, inputs)))["grama_ratio"]


ROWS = [[0.3, 0.1], [0.0, 0.0], [0.2, -0.6]]  # means 0.2, 0 and 0.4: scores 1, 0 and 2


def test_grama_ratio_compares_mean_gradients_with_their_layer():
    assert grama(ROWS) == grama(ROWS, threshold=0.0) == pytest.approx(1 / 3)
    assert grama(ROWS, threshold=1.0) == pytest.approx(2 / 3)
    assert grama([[1e-30 * entry for entry in row] for row in (ROWS[2], ROWS[0], ROWS[1])]) == pytest.approx(1 / 3)


def test_layer_without_any_gradient_is_inactive_and_what_is_not_finite_is_no_number():
    assert grama([[0.0, 0.0], [0.0, 0.0]]) == 1.0
    assert math.isnan(grama([[math.nan, 0.0], [1.0, 0.0]]))
    assert math.isnan(grama([[math.inf, 0.0], [1.0, 0.0]]))
    assert weights.GramaRatio().measure(observe(ones(), torch.rand(1, 2))) == {}


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        ([[2.0, 0.0], [0.0, 1.0]], 9.0),
        ([[1.0, 1.0], [0.0, 1.0]], 0 + 1 + 1 + 1),  # W'W = [[1, 1], [1, 2]]
        ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], 1.0),  # rows are orthonormal, three columns of two numbers cannot be
        ([[1.0], [0.0], [0.0]], 0.0),
        ([[0.0, 0.0]], 2.0),
        ([[0.0, -1.0], [1.0, 0.0]], 0.0),
    ],
)
def test_deviation_from_isometry_by_hand(weight, expected):
    assert weights.dfi(torch.tensor(weight)) == pytest.approx(expected)
    assert weights.dfi(torch.tensor(weight).half().flip(0)) == pytest.approx(expected)


def test_deviations_are_summed_over_layers_and_groups_without_norms_and_embeddings():
    network = nn.Sequential(
        nn.Conv2d(4, 4, 1, groups=2, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4, 1)
    )
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, 1.0]])[:, :, None, None])
        network[4].weight.zero_()
    assert weights.DfI().measure(observe(network.eval(), torch.rand(1, 4, 1, 1))) == {"dfi": pytest.approx(0 + 9 + 4)}
    network[4].weight.data[0, 0] = torch.nan
    assert math.isnan(weights.DfI().measure(observe(network, torch.rand(1, 4, 1, 1)))["dfi"])


@holding(lambda: {"weight": nn.Parameter(torch.ones(2, 3))})
class Conv1D(nn.Module):
    """As GPT-2's: x @ weight, so that outputs lie along the weight's second dimension."""

    def forward(self, x):
        return x @ self.weight - torch.tensor([0.0, 9.0, 0.0])


def test_units_of_a_conv1d_are_the_columns_of_its_weight():
    network = nn.Sequential(Conv1D(), nn.ReLU(), nn.Linear(3, 2))
    network(torch.rand(4, 2)).sum().backward()
    found = weights.DeadGradientShare().measure(observe(network, torch.rand(4, 2)))
    assert found["dead_gradient_share"] == pytest.approx(1 / 5)


def test_a_network_without_weights_has_norm_zero():
    assert weights.joint_norm([]) == 0.0
