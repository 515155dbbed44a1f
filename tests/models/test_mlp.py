import math

import pytest
import torch
from torch import nn

from supple import AID, CReLU, Fourier
from supple.layers import Identity
from supple_lab.models.mlp import MLP


def build(model, activation=nn.ReLU, image_shape=(1, 28, 28)):
    return model.build(activation, image_shape=image_shape, num_classes=10)


def test_matched_crelu_has_the_parameters_of_the_paper_mlp_within_a_tenth_of_a_percent():
    network = build(MLP(), CReLU)
    assert [layer.out_features for layer in network if isinstance(layer, nn.Linear)] == [1451, 1451, 1451, 10]
    assert sum(p.numel() for p in network.parameters()) == 9_592_571


def test_halved_fourier_keeps_the_width_after_the_activation():
    network = build(MLP(width=8, num_hidden=2, narrowing="halved"), Fourier)
    assert [layer.in_features for layer in network if isinstance(layer, nn.Linear)] == [784, 8, 8]
    assert network(torch.zeros(3, 1, 28, 28)).shape == (3, 10)


@pytest.mark.parametrize(
    ("activation", "gain"),
    [(nn.Tanh, 5 / 3), (nn.Sigmoid, 1.0), (Identity, 1.0), (nn.ReLU, math.sqrt(2)), (AID, math.sqrt(2))],
)
def test_gain_of_hidden_layers_is_that_of_the_activation(activation, gain):
    hidden, output = [m for m in build(MLP(width=500, num_hidden=1), activation) if isinstance(m, nn.Linear)]
    for layer, its_gain in ((hidden, gain), (output, 1.0)):
        # The largest of n uniform draws falls short of the bound by a share of 1 / n on average.
        shortfall = 1 - layer.weight.abs().max().item() / (its_gain * math.sqrt(3 / layer.in_features))
        assert -1e-6 < shortfall < 20 / layer.weight.numel() + 1e-6
        # A uniform's standard deviation is bound / sqrt(3); its own relative error over n draws is sqrt(0.2 / n).
        deviation = layer.weight.std().item() * math.sqrt(layer.in_features) / its_gain
        assert abs(deviation - 1) < 5 * math.sqrt(0.2 / layer.weight.numel())
        assert layer.bias.abs().max() == 0


def test_torchs_own_initialisation_can_be_had():
    network = MLP(width=16, init="torch").build(nn.ReLU, image_shape=(1, 8, 8), num_classes=10)
    torch.manual_seed(0)
    assert torch.equal(network[1].weight, nn.Linear(64, 16).weight)
