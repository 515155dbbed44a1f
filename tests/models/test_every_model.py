"""Every model with every kind of activation: shapes, sites, unit graph; networks by their size."""

import pytest
import torch
from torch import nn

from supple import AID, CReLU, DropReLU, Fourier, ReLUDropout
from supple.units import trace_units
from supple_lab import registry
from supple_lab.models.base import Model
from supple_lab.models.cnn import CNN
from supple_lab.models.gpt import GPT
from supple_lab.models.nature_dqn import NatureDQN
from supple_lab.models.resnet18 import ResNet18

ACTIVATIONS = [nn.ReLU, AID, ReLUDropout, CReLU, Fourier]
SMALL = {
    "mlp": ({"width": 8}, (1, 8, 8)),
    "cnn": ({"channels": 4, "hidden": 10}, (3, 32, 32)),
    "resnet18": ({"width": 4}, (3, 8, 8)),
    "vgg16": ({"width": 4, "hidden": 16}, (3, 32, 32)),
    "nature_dqn": ({}, (4, 84, 84)),
    "minatar_net": ({"channels": 4, "hidden": 10}, (1, 100, 10)),
    "gpt": ({"num_layers": 2, "width": 8, "num_heads": 2}, (1, 1, 5)),
}


def build(name, activation=nn.ReLU):
    fields, shape = SMALL[name]
    return registry.find(Model, name)(**fields).build(activation, image_shape=shape, num_classes=7), torch.rand(
        2, *shape
    )


def num_parameters(model, shape, num_classes):
    network = model.build(nn.ReLU, image_shape=shape, num_classes=num_classes)
    return sum(parameter.numel() for parameter in network.parameters())


def test_every_model_is_tested_here():
    assert set(SMALL) == set(registry.known(Model))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("name", SMALL)
def test_model_gives_a_logit_per_class_and_every_parameter_a_gradient(name, activation):
    network, images = build(name, activation)
    logits = network(images)
    assert logits.shape == ((2, 7, 5) if name == "gpt" else (2, 7))
    logits.square().sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


@pytest.mark.parametrize(
    ("name", "num_sites"),
    [("mlp", 3), ("cnn", 4), ("resnet18", 17), ("vgg16", 15), ("nature_dqn", 4), ("gpt", 2), ("minatar_net", 2)],
)
def test_every_site_has_its_own_activation_and_is_traced(name, num_sites):
    network, images = build(name, AID)
    sites = [module for module in network.modules() if isinstance(module, AID)]
    assert len(sites) == num_sites
    units = trace_units(network, images)
    assert [layer.activation for layer in units] == sites
    assert not units.skipped


@pytest.mark.parametrize("name", ["mlp", "cnn", "vgg16", "nature_dqn", "gpt"])
@pytest.mark.parametrize("activation", [nn.ReLU, CReLU])
def test_all_units_of_plain_networks_can_be_renewed(name, activation):
    network, images = build(name, activation)
    assert all(layer.resettable for layer in trace_units(network, images))


def test_residual_network_can_renew_the_first_layer_of_each_block():
    network, images = build("resnet18")
    renewable = [layer.name for layer in trace_units(network, images) if layer.resettable]
    assert renewable == [f"{block}.act1" for block in range(3, 11)]


@pytest.mark.parametrize(
    ("model", "shape", "num_classes", "expected"),
    [
        (CNN(), (3, 32, 32), 10, 58_842),
        (CNN(num_linear=1), (3, 32, 32), 10, 48_742),
        (NatureDQN(), (4, 84, 84), 9, 1_688_745),
        (ResNet18(), (3, 32, 32), 100, 11_220_132),
        (ResNet18(head_hidden=512), (3, 32, 32), 100, 11_482_788),
        # Embeddings, positions, head; 6 blocks of 12 width² weights, 9 width biases and two norms; the last norm.
        (GPT(), (1, 1, 256), 256, 3 * 256 * 384 + 6 * (12 * 384**2 + (9 + 4) * 384) + 2 * 384),
    ],
    ids=["CNN", "CNN, one linear", "Nature DQN", "ResNet-18", "ResNet-18, hidden head", "GPT"],
)
def test_network_has_its_number_of_parameters(model, shape, num_classes, expected):
    assert num_parameters(model, shape, num_classes) == expected


@pytest.mark.parametrize(
    ("activation", "pool"),
    [
        (nn.ReLU, nn.MaxPool2d),
        (ReLUDropout, nn.MaxPool2d),
        (CReLU, nn.MaxPool2d),
        (AID, nn.AvgPool2d),
        (DropReLU, nn.AvgPool2d),
        (Fourier, nn.AvgPool2d),
    ],
)
def test_pools_are_averaged_for_the_activations_of_the_paper_alone(activation, pool):
    network, _ = build("cnn", activation)
    assert sum(isinstance(module, pool) for module in network) == 2


def test_frames_of_bytes_enter_the_q_network_as_they_are():
    network, _ = build("nature_dqn")
    frames = torch.randint(256, (2, 4, 84, 84), dtype=torch.uint8)
    assert torch.equal(network(frames), network(frames.float()))


@pytest.mark.parametrize("activation", [AID, ReLUDropout, DropReLU, nn.RReLU])
@pytest.mark.parametrize("name", SMALL)
def test_all_activations_of_a_seed_start_from_the_same_weights(name, activation):
    torch.manual_seed(5)
    plain, _ = build(name)
    torch.manual_seed(5)
    other, _ = build(name, activation)
    for one, another in zip(plain.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, another)
    assert other.training
