import pytest
import torch
from torch import nn

from networks import MLP, ResNet
from supple import AID, CReLU, DropReLU, Fourier, IntervalDropout, ReLUDropout
from supple.activations import is_activation, never_silent
from supple.metrics.observe import observe
from supple.metrics.sites import activation_sites
from supple.metrics.units import DormantRatio
from supple.units import UnitGraph, UnitLayer, trace_units


class Permute(nn.Module):
    def __init__(self, *dims):
        super().__init__()
        self.dims = dims

    def forward(self, x):
        return x.permute(self.dims)


class Swish(nn.SiLU):
    """A class of one's own over one of torch's."""


YES = (nn.ReLU(), nn.GELU(), nn.PReLU(), nn.RReLU(), nn.Tanh(), Swish(), AID(), CReLU(), DropReLU(), Fourier())
YES += (ReLUDropout(), IntervalDropout((0.0,), (0.9, 0.1)))
NO = (nn.Linear(1, 1), nn.Softmax(1), nn.LogSoftmax(1), nn.Dropout(), nn.Identity(), nn.MultiheadAttention(2, 1))


@pytest.mark.parametrize("module", [*YES, *NO], ids=lambda module: type(module).__name__)
def test_activation_is_recognised(module):
    assert is_activation(module) == (module in YES)


def test_block_from_a_file_of_activations_is_none_if_it_has_parts():
    block = type("Gated", (nn.Module,), {"__module__": "library.activations"})()
    assert is_activation(block)
    block.inner = nn.ReLU()
    assert not is_activation(block)


def test_sites_can_be_named_or_come_from_a_unit_graph():
    network = nn.Sequential(nn.Linear(2, 2), nn.Identity(), nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    graph = UnitGraph((UnitLayer("1", network[1], network[0], None, (), False, False, "", 2),), ())
    for sites, name in ((None, "3"), (["1"], "1"), (graph, "1")):
        assert [site.name for site in observe(network, torch.ones(1, 2), sites=sites).sites] == [name]


def test_unknown_name_lists_the_activations_there_are():
    with pytest.raises(LookupError, match="no module named 'act2' in the model. Its activations: act"):
        activation_sites(MLP(), ["act2"])


def test_activation_used_twice_is_two_sites_with_the_layers_that_feed_them():
    sites = observe(MLP(), torch.randn(4, 6)).sites
    assert [(site.name, site.layer) for site in sites] == [("act", "fc1"), ("act#2", "fc2")]


def test_site_behind_a_residual_sum_belongs_to_the_last_layer_of_the_branch():
    sites = observe(ResNet(), torch.randn(2, 3, 13, 13)).sites
    inner = ["layer1.0.conv1", "layer1.0.conv2", "layer1.1.conv1", "layer1.1.conv2"]
    inner += ["layer2.0.conv1", "layer2.0.conv2", "layer2.0.conv3"]
    assert [site.layer for site in sites] == ["conv1", *inner]


SAME_WIDTH = [
    nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 1)),
    nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5), nn.Linear(5, 5), nn.LayerNorm(5), nn.ReLU(), nn.Linear(5, 1)),
]


@pytest.mark.parametrize("network", SAME_WIDTH, ids=["layers in a row", "norms between"])
def test_site_behind_layers_of_one_width_belongs_to_the_last(network):
    last = [name for name, layer in network.named_children() if isinstance(layer, nn.Linear)][1]
    assert [site.layer for site in observe(network, torch.randn(4, 3)).sites] == [last]


@pytest.mark.parametrize(
    ("layers", "inputs", "num_units", "num_values"),
    [
        ([nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 1)], (4, 3), 5, 4),
        ([nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 1)], (4, 7, 3), 5, 28),  # tokens: units last
        ([nn.Conv1d(3, 5, 1), nn.ReLU(), nn.Conv1d(5, 1, 1)], (4, 3, 7), 5, 28),  # a sequence: channels second
        ([nn.Conv2d(3, 5, 1), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(45, 1)], (4, 3, 6, 6), 5, 36),
        ([nn.Conv2d(3, 5, 1), nn.Flatten(), nn.ReLU(), nn.Linear(20, 1)], (4, 3, 2, 2), 20, 4),
        ([nn.Linear(3, 5), CReLU(), nn.Linear(5, 1)], (4, 7, 3), 7, 20),  # it concatenates along dimension 1
        ([nn.Conv3d(3, 5, 1), CReLU(), nn.Conv3d(10, 1, 1)], (4, 3, 2, 2, 2), 5, 32),
    ],
)
def test_units_lie_where_their_layer_put_them(layers, inputs, num_units, num_values):
    (site,) = observe(nn.Sequential(*layers), torch.randn(inputs)).sites
    assert (site.num_units, site.num_values) == (num_units, num_values)
    assert site.positive_share.shape == site.magnitude.shape == (num_units,)


def moved_units(norm):
    """A network that moves its units, eight of them, between layer and activation; and inputs for it."""
    if isinstance(norm, (nn.LayerNorm, nn.RMSNorm)):
        layers = nn.Conv2d(3, 8, 3, padding=1), Permute(0, 2, 3, 1), norm, nn.ReLU(), nn.Linear(8, 3)
        return nn.Sequential(*layers), torch.randn(4, 3, 8, 6)  # as many rows in an image as there are channels
    layers = nn.Linear(5, 8), Permute(0, 2, 1), norm, nn.ReLU(), nn.Conv1d(8, 3, 1)
    return nn.Sequential(*layers), torch.randn(4, 6, 5)


@pytest.mark.parametrize("has_graph", [False, True])
@pytest.mark.parametrize("norm", [nn.LayerNorm(8), nn.RMSNorm(8), nn.BatchNorm1d(8), nn.GroupNorm(2, 8)])
def test_units_moved_before_a_norm_are_found_where_the_norm_has_its_entries(norm, has_graph):
    network, inputs = moved_units(norm)
    if isinstance(norm, nn.RMSNorm):
        nn.init.zeros_(norm.weight[:3])
    else:
        nn.init.constant_(norm.bias[:3], -50.0)
    observation = observe(network, inputs, sites=trace_units(network, inputs) if has_graph else None)
    (site,) = observation.sites
    assert (site.num_units, site.layer) == (8, "0")
    assert DormantRatio().measure(observation)["dormant_ratio"] == 3 / 8


def test_units_moved_without_a_norm_are_found_by_the_graph():
    network = nn.Sequential(nn.Linear(5, 8), Permute(0, 2, 1), nn.ReLU(), nn.Conv1d(8, 3, 1))
    inputs = torch.randn(4, 8, 5)  # as many positions as units
    nn.init.constant_(network[0].bias[:3], -50.0)
    observation = observe(network, inputs, sites=trace_units(network, inputs))
    assert [site.layer for site in observation.sites] == ["0"]
    assert DormantRatio().measure(observation)["dormant_ratio"] == 3 / 8


@pytest.mark.parametrize(
    ("layers", "shape", "layer"),
    [
        ((nn.Linear(3, 5), nn.BatchNorm1d(7), nn.ReLU(), nn.Linear(5, 1)), (4, 7, 3), "0"),
        # z is (4, 5, 6): its last dimension is as wide as the norm
        ((nn.LayerNorm(6), Permute(0, 2, 1), nn.Conv1d(6, 5, 2), nn.ReLU(), nn.Conv1d(5, 1, 1)), (4, 7, 6), "2"),
    ],
    ids=["a norm over positions", "a norm before the layer"],
)
def test_norm_of_something_else_does_not_make_units_of_it(layers, shape, layer):
    (site,) = observe(nn.Sequential(*layers), torch.randn(shape)).sites
    assert (site.num_units, site.layer) == (5, layer)


HALVED, HALF = IntervalDropout((0.0,), (0.5, 0.5)), IntervalDropout((0.0,), (1.0, 0.5))


PASSING = [AID(0.9), DropReLU(0.9), HALVED, nn.RReLU(), nn.LeakyReLU(), CReLU(), Fourier(), nn.Tanh()]
RECTIFIERS = [nn.ReLU(), ReLUDropout(0.5), AID(1.0), DropReLU(1.0), HALF, nn.LeakyReLU(0.0)]


@pytest.mark.parametrize("module", [*PASSING, *RECTIFIERS], ids=str)
def test_activation_that_lets_negative_values_through_is_never_silent_and_a_rectifier_can_be(module):
    assert never_silent(module) == (module in PASSING)
    assert (module.eval()(torch.tensor([[-1.0, -2.0]])) != 0).any() == (module in PASSING)
