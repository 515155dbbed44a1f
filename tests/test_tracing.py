"""The unit graph of all kinds of networks: by hand where a hand can count, by cutting units off where it cannot."""

import copy
import itertools
import random
from dataclasses import replace

import pytest
import torch
from torch import nn

import cut_off
import networks
import networks_zoo as zoo
from supple import AID, CReLU, DropReLU, Fourier, IntervalDropout, ReLUDropout, convert
from supple.layers import Identity
from supple.units import Consumer, UntraceableModel, columns_of, trace_units
from written import holding

VECTOR, IMAGE, TOKENS, MAP = (5, 6), (2, 3, 14, 14), (2, 4, 6), (2, 6, 5, 5)

# For each network its input and the sites whose units can be renewed one by one, worked out from its forward.
NETWORKS = {
    "mlp": (zoo.mlp, VECTOR, ["1", "3"]),
    "mlp of AID": (lambda: zoo.mlp(AID), VECTOR, ["1", "3"]),
    "mlp of CReLU": (lambda: zoo.mlp(CReLU), VECTOR, ["1", "3"]),
    "cnn": (zoo.cnn, IMAGE, ["1", "4", "8"]),
    "cnn of AID, average-pooled": (lambda: zoo.cnn(AID, nn.AvgPool2d), IMAGE, ["1", "4", "8"]),
    "cnn of Fourier": (lambda: zoo.cnn(Fourier), IMAGE, ["1", "4", "8"]),
    "vgg": (zoo.vgg_bn, (2, 3, 8, 8), ["0.2", "0.5", "3.1"]),
    "dqn": (zoo.NatureDQN, (2, 4, 56, 56), ["act1", "act2", "act3", "act4"]),
    "resnet": (zoo.ResNet, IMAGE, ["blocks.0.act1", "blocks.1.act1"]),
    "resnet of CReLU": (lambda: zoo.ResNet(CReLU), IMAGE, ["act", "blocks.0.act1", "blocks.1.act1"]),
    "densenet": (zoo.densenet, (2, 3, 8, 8), ["1.act2", "2.act2"]),
    "transformer": (zoo.TransformerBlock, TOKENS, ["mlp.1"]),
    "convnext": (zoo.ConvNeXtBlock, MAP, ["act"]),
    "squeeze and excite": (zoo.SqueezeExcite, IMAGE, ["act1"]),
    "two branches": (zoo.TwoBranches, IMAGE, ["act_left", "act_right"]),
    "with blocks": (zoo.WithBlocks, VECTOR, ["act1", "act2"]),
    "padded with zeros": (lambda: zoo.padded_cnn(nn.ZeroPad2d(1)), IMAGE, ["1", "5"]),
    "padded with a value": (lambda: zoo.padded_cnn(zoo.Pad(2, 0, 1, 3, value=1.5)), IMAGE, ["1", "5"]),
    "padded and cropped": (lambda: zoo.padded_cnn(zoo.Pad(-2, 1, 0, -1)), IMAGE, ["1", "5"]),
    "padded with channels": (lambda: zoo.padded_cnn(zoo.Pad(0, 0, 0, 0, 1, 2), width=7), IMAGE, ["1", "5"]),
    "padded all around": (lambda: zoo.padded_cnn(zoo.Pad(1, 1, 1, 1, 1, 2, value=-2.0), width=7), IMAGE, ["1", "5"]),
    "padded before its activation": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), zoo.Pad(1, 1, value=0.5), nn.ReLU(), nn.Conv2d(4, 3, 3)),
        *(IMAGE, ["2"]),
    ),
    "padded shortcut": (zoo.PaddedShortcut, IMAGE, ["act1"]),
    "own activations": (zoo.OwnActivations, VECTOR, ["rectify", "both"]),
    "torchvision's resnet, converted": (
        lambda: convert(networks.ResNet(), AID()),
        networks.IMAGE,
        ["layer1.0.relu.0", "layer1.1.relu.0", "layer2.0.relu.0", "layer2.0.relu.1"],
    ),
    "torch's encoder, converted": (
        lambda: convert(networks.Encoder(), AID()),
        VECTOR,
        ["encoder.layers.0.activation", "encoder.layers.1.activation"],
    ),
    "functional net, converted": (
        lambda: convert(networks.FunctionalNet(), nn.ReLU()),
        networks.IMAGE,
        ["relu_0", "relu_1.0", "relu_1.1", "relu_2"],
    ),
}


@pytest.fixture(scope="module", params=NETWORKS)
def network(request):
    return request.param


@pytest.fixture(scope="module")
def traced(network):
    """The network in float64, an input, and the graph."""
    torch.manual_seed(0)
    build, shape, _ = NETWORKS[network]
    model, x = cut_off.awake_(build().double().eval()), torch.randn(shape, dtype=torch.float64)
    return model, x, trace_units(model, x)


def resettable(graph) -> list[str]:
    return [layer.name for layer in graph if layer.resettable]


def names_around(model, layer):
    """Producer, norm and consumers of a layer by name."""
    names = {module: name for name, module in model.named_modules()}
    return names.get(layer.producer), names.get(layer.norm), [names[consumer.layer] for consumer in layer.consumers]


# -- what a unit is


def test_every_network_has_the_renewable_sites_that_a_reader_finds(traced, network):
    assert resettable(traced[2]) == NETWORKS[network][2]


def test_units_act_through_their_columns_alone_and_their_rows_on_them_alone(traced):
    model, x, graph = traced
    for layer in graph:
        for unit in (0, layer.num_units - 1) if layer.resettable else ():
            cut_off.check_layer(model, layer, x, unit)


def test_cutting_off_would_notice_the_columns_of_another_unit(traced):
    model, x, graph = traced
    layer = next(layer for layer in graph if layer.resettable)
    rolled = tuple(Consumer(at.layer, at.columns_US.roll(1, 0)) for at in layer.consumers)
    with pytest.raises(AssertionError):
        cut_off.check_layer(model, replace(layer, consumers=rolled), x, unit=1)


RANGE = torch.arange
FOUR_POSITIONS = 9 * RANGE(4)  # of nine channels each
HALVES = RANGE(40).view(2, 5, 4)
# For each network, input and site the columns of its units in every layer that reads them.
COLUMNS = [
    (zoo.cnn, IMAGE, "1", [RANGE(4)[:, None]]),
    *((zoo.cnn, (batch, 3, 14, 14), "4", [RANGE(20).view(5, 4)]) for batch in (1, 33)),  # channels of 2 x 2
    (zoo.mlp, (6,), "1", [RANGE(7)[:, None]]),  # no batch at all
    *((lambda act=act: zoo.mlp(act), VECTOR, "1", [RANGE(14).view(2, 7).T]) for act in (CReLU, Fourier)),
    *((lambda act=act: zoo.cnn(act), IMAGE, "4", [torch.cat([*HALVES], 1)]) for act in (CReLU, Fourier)),
    (zoo.OwnActivations, VECTOR, "both", [RANGE(8).view(2, 4).T]),
    (zoo.TwoBranches, IMAGE, "act_left", [RANGE(4)[:, None] + FOUR_POSITIONS]),
    (zoo.TwoBranches, IMAGE, "act_right", [4 + RANGE(5)[:, None] + FOUR_POSITIONS, RANGE(5)[:, None]]),
    (lambda: zoo.padded_cnn(nn.ZeroPad2d(1)), IMAGE, "1", [RANGE(4)[:, None]]),
    (lambda: zoo.padded_cnn(nn.ZeroPad2d(1)), IMAGE, "5", [RANGE(80).view(5, 16)]),  # maps of 4 x 4 with borders
    # Channels that are padded belong to no unit.
    (lambda: zoo.padded_cnn(zoo.Pad(0, 0, 0, 0, 1, 2), width=7), IMAGE, "1", [RANGE(1, 5)[:, None]]),
    (lambda: zoo.padded_cnn(zoo.Pad(1, 1, 1, 1, 1, 2), width=7), IMAGE, "1", [RANGE(1, 5)[:, None]]),
]


@pytest.mark.parametrize(("build", "shape", "site", "columns"), COLUMNS)
def test_columns_follow_pools_pads_concatenation_and_flattening(build, shape, site, columns):
    layer = trace_units(build(), torch.randn(shape))[site]
    assert layer.num_units == len(columns[0])
    assert all(torch.equal(at.columns_US, own) for at, own in zip(layer.consumers, columns, strict=True))
    consumer = layer.consumers[0]
    assert columns_of(consumer, torch.tensor([3, 1])).tolist() == columns[0][[3, 1]].flatten().tolist()


def test_a_shortcut_padded_with_channels_enters_the_sum():
    model = zoo.PaddedShortcut()
    graph = trace_units(model, torch.randn(IMAGE))
    assert names_around(model, graph["act"]) == ("conv", None, ["conv1"])
    assert (graph["act"].sums_out, graph["act"].unclear) == (True, "")
    assert graph["act2"].sums_in


# -- what lies around a site


def test_residual_blocks_are_told_apart_from_what_is_inside_them():
    model = zoo.ResNet()
    graph = trace_units(model, torch.randn(IMAGE))
    around = {layer.name: (*names_around(model, layer), layer.sums_in, layer.sums_out) for layer in graph}
    first, second = "blocks.0.", "blocks.1."
    assert around == {
        "act": ("conv", "bn", [first + "conv1"], False, True),
        first + "act1": (first + "conv1", first + "bn1", [first + "conv2"], False, False),
        first + "act2": (None, None, [second + "conv1", second + "shortcut.0"], True, False),
        second + "act1": (second + "conv1", second + "bn1", [second + "conv2"], False, False),
        second + "act2": (None, None, ["fc"], True, False),
    }
    assert not any(layer.unclear for layer in graph)
    assert graph.skipped == ()


def test_a_norm_belongs_to_the_activation_after_it_not_to_the_one_before():
    model = nn.Sequential(
        nn.Linear(6, 5), nn.ReLU(), nn.BatchNorm1d(5), nn.Linear(5, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 3)
    )
    before, after = trace_units(model, torch.randn(VECTOR))
    assert names_around(model, before) == ("0", None, ["3"])
    assert names_around(model, after) == ("3", "4", ["6"])
    assert before.resettable
    assert after.resettable


def test_densely_connected_units_have_no_single_producer_but_known_consumers():
    model = zoo.densenet()
    layer = trace_units(model, torch.randn(2, 3, 8, 8))["2.act1"]
    assert names_around(model, layer) == (None, "2.bn1", ["2.conv1"])
    assert layer.num_units == 7
    assert "cat in 1 (DenseLayer)" in layer.unclear


TORCHS = (nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.RReLU, nn.PReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish)
TORCHS += (nn.Sigmoid, nn.Tanh, nn.Hardswish, nn.Hardsigmoid, nn.Hardtanh, nn.LogSigmoid, nn.Softplus, nn.Softsign)
OTHERS = (nn.Threshold(0.1, 0.0), nn.ReLU(inplace=True), nn.SiLU(inplace=True), AID(p=1.0), AID(inplace=True), AID())
OTHERS += (IntervalDropout((-1.0, 1.0), (0.1, 0.5, 0.1)), DropReLU(), ReLUDropout(), Identity())


@pytest.mark.parametrize("activation", [*(cls() for cls in TORCHS), *OTHERS], ids=str)
def test_every_activation_is_a_site(activation):
    model = nn.Sequential(nn.Linear(6, 5), activation, nn.Linear(5, 3))
    (layer,) = trace_units(model, torch.randn(VECTOR))
    assert layer.activation is activation
    assert layer.resettable


@pytest.mark.parametrize(
    "module", [nn.Softmax(1), nn.Identity(), nn.Dropout(), nn.BatchNorm1d(5), nn.LayerNorm(5)], ids=str
)
def test_what_is_no_activation_is_no_site(module):
    model = nn.Sequential(nn.Linear(6, 5), module, nn.Linear(5, 3))
    assert len(trace_units(model, torch.randn(VECTOR))) == 0


# -- what cannot be known, and is said


@pytest.mark.parametrize(
    ("network", "shape", "site", "why"),
    [
        (zoo.SqueezeExcite, IMAGE, "gate", "mul in the forward of SqueezeExcite: it joins them with another tensor"),
        (zoo.Tied, VECTOR, "act1", "the weight of fc (Linear) is used 2 times"),
        (zoo.Tied, VECTOR, "act3", "the weight of encode (Linear) is used 2 times"),
        (zoo.Tied, VECTOR, "act2", "the weight of fc (Linear) is used 2 times"),
        (zoo.NormsOfTheirOwn, VECTOR, "act1", "layer_norm in fc1 (NormedLinear) does not belong to a module"),
        (zoo.NormsOfTheirOwn, VECTOR, "act2", "the weight of norm (BatchNorm1d) is used 2 times"),
        (zoo.NormsOfTheirOwn, VECTOR, "act4", "two norms come before it"),
        (zoo.ReadPast, VECTOR, "act", "also read by add in the forward of ReadPast"),
        (zoo.Maxout, VECTOR, "act", "maximum in the forward of Maxout: it mixes units"),
        (
            lambda: nn.Sequential(nn.Conv2d(6, 4, 1), zoo.Pad(0, 0, 0, 0, 1, 1), nn.ReLU(), nn.Conv2d(6, 3, 1)),
            *(MAP, "2", "no layer before it"),
        ),
        (zoo.Halves, VECTOR, "act", "first (Linear): it reads some of the units more than others"),
        (lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh()), VECTOR, "1", "they reach the output of the model"),
        (lambda: nn.Sequential(nn.ReLU(), nn.Linear(6, 3)), VECTOR, "0", "no layer before it"),
        (
            lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.LayerNorm(5), nn.Linear(5, 3)),
            *(VECTOR, "1", "layer_norm in 2 (LayerNorm): it mixes units"),
        ),
        (
            lambda: nn.Sequential(nn.Conv2d(6, 4, 1), nn.ReLU(), nn.Conv2d(4, 4, 3, groups=4)),
            *(MAP, "1", "2 (Conv2d): a Conv2d in groups"),
        ),
        (
            lambda: nn.Sequential(nn.Conv2d(6, 4, 1), nn.Flatten(), nn.ReLU(), nn.Linear(100, 3)),
            *(MAP, "2", "no layer before it"),
        ),
        (
            lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.utils.parametrizations.weight_norm(nn.Linear(5, 3))),
            *(VECTOR, "1", "linear in 2 (ParametrizedLinear) does not multiply"),
        ),
        (
            lambda: nn.Sequential(nn.ConvTranspose2d(6, 4, 2), nn.ReLU(), nn.ConvTranspose2d(4, 3, 2)),
            *(MAP, "1", "conv_transpose2d in 0 (ConvTranspose2d) does not multiply by the weight of a layer"),
        ),
        (
            lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Dropout(), nn.Tanh(), nn.Linear(5, 3)),
            *(VECTOR, "1", "3 (Tanh) comes after them, no layer between"),
        ),
        (
            lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Softmax(1), nn.Linear(5, 3)),
            *(VECTOR, "1", "softmax in 2 (Softmax): what it does to units is not known"),
        ),
        (
            lambda: nn.Sequential(nn.Linear(6, 6), nn.LayerNorm((4, 6)), nn.ReLU(), nn.Linear(6, 3)),
            *(TOKENS, "2", "1 (LayerNorm) does not have its entries by units"),
        ),
    ],
)
def test_what_is_unclear_is_said_with_the_operation_and_its_module(network, shape, site, why):
    layer = trace_units(network(), torch.randn(shape))[site]
    assert why in layer.unclear
    assert not layer.resettable


def test_an_inplace_activation_that_a_shortcut_reads_enters_a_sum():
    layer = trace_units(networks.OverwritingNet(), torch.randn(VECTOR))["act"]
    assert layer.sums_out
    assert not layer.resettable


def test_writes_into_views_reach_all_who_read_the_memory():
    graph = trace_units(zoo.WritesIntoViews(), torch.randn(IMAGE))
    assert [consumer.layer.in_features for consumer in graph["act1"].consumers] == [4]
    assert graph["act1"].resettable
    assert graph["act2"].sums_out


def test_functional_activations_are_skipped_with_the_way_out():
    skipped = trace_units(networks.TwoActivationsNet(), torch.randn(VECTOR)).skipped
    assert len(skipped) == 2
    assert skipped[0].startswith("gelu in the forward of TwoActivationsNet")
    assert "supple.convert(model, nn.GELU(), replace=(nn.GELU,))" in skipped[0]
    assert "supple.convert(model, nn.ReLU())" in skipped[1]


@pytest.mark.parametrize("network", [networks.MLP, networks.SharedActivationNet])
def test_an_activation_called_at_several_places_is_skipped_until_it_is_converted(network):
    model, x = network(), torch.randn(VECTOR)
    graph = trace_units(model, x)
    assert len(graph) == 0
    assert "called at several places" in graph.skipped[0]
    converted = trace_units(convert(model, nn.ReLU()), x)
    assert len(converted) == {networks.MLP: 2, networks.SharedActivationNet: 4}[network]
    assert converted.skipped == ()


@holding(lambda: {"rnn": nn.GRU(8, 8), "fc": nn.Linear(8, 8), "act": nn.ReLU(), "head": nn.Linear(8, 2)})
class Text(nn.Module):
    def forward(self, x):
        return self.head(self.act(self.fc(self.rnn(x)[0])))


def test_units_of_a_recurrent_layer_are_said_to_be_left_alone():
    graph = trace_units(Text(), torch.randn(3, 2, 8))
    assert [layer.name for layer in graph] == ["act"]
    assert graph.skipped == ("the units of rnn (GRU) are computed inside torch.",)


def test_an_activation_for_training_alone_is_skipped():
    (idle,) = [
        words
        for words in trace_units(convert(networks.AuxiliaryNet(), AID()), torch.randn(VECTOR)).skipped
        if "act.0" in words
    ]
    assert "in evaluation mode" in idle


# -- names, wrappers, leaving things alone


def test_sites_are_named_as_in_the_model_and_called_once_in_a_forward(traced):
    model, x, graph = traced
    named, calls = dict(model.named_modules()), []
    hooks = [layer.activation.register_forward_hook(lambda module, *_: calls.append(module)) for layer in graph]
    model(x)
    for hook in hooks:
        hook.remove()
    assert calls == [layer.activation for layer in graph] == [named[layer.name] for layer in graph]


@pytest.mark.parametrize(("wrap", "prefix"), [(torch.compile, "_orig_mod."), (nn.DataParallel, "module.")])
def test_a_wrapped_model_is_traced_under_the_wrappers_names(wrap, prefix):
    model = zoo.mlp()
    graph = trace_units(wrap(model), torch.randn(VECTOR))
    assert [layer.name for layer in graph] == [prefix + "1", prefix + "3"]
    assert graph[prefix + "1"].producer is model[0]


def test_a_model_of_several_inputs_takes_a_tuple():
    @holding(lambda: {"fc1": nn.Linear(6, 5), "act": nn.ReLU(), "fc2": nn.Linear(7, 3)})
    class Joined(nn.Module):
        def forward(self, x, y):
            return self.fc2(torch.cat([y, self.act(self.fc1(x))], 1))

    (layer,) = trace_units(Joined(), (torch.randn(VECTOR), torch.randn(5, 2)))
    assert layer.consumers[0].columns_US.tolist() == [[2], [3], [4], [5], [6]]


@pytest.mark.parametrize("network", [zoo.vgg_bn, zoo.ResNet, lambda: convert(networks.ResNet(), AID()), zoo.WithBlocks])
def test_the_model_and_the_random_streams_stay_as_they_are(network):
    model = network().train()
    next(model.children()).eval()
    next(model.parameters()).requires_grad_(False)
    before, x = copy.deepcopy(model), torch.randn(VECTOR if network is zoo.WithBlocks else IMAGE)
    stream = torch.get_rng_state()
    trace_units(model, x)
    assert torch.equal(torch.get_rng_state(), stream)
    assert [module.training for module in model.modules()] == [module.training for module in before.modules()]
    for (name, value), (old_name, old) in zip(state(model), state(before), strict=True):
        assert name == old_name
        assert torch.equal(value, old)
        assert value.requires_grad == old.requires_grad
    assert all(p.grad is None for p in model.parameters())
    assert torch.is_grad_enabled()


def state(model):
    return itertools.chain(model.named_parameters(), model.named_buffers())


def test_what_a_forward_draws_is_put_back():
    model, x = zoo.Jitter(), torch.randn(VECTOR)
    python, stream = random.getstate(), torch.get_rng_state()
    assert trace_units(model, x)["act"].resettable
    assert random.getstate() == python
    assert torch.equal(torch.get_rng_state(), stream)


@pytest.mark.skipif(torch.__version__.startswith("2.6."), reason="torch 2.6 does not export such a forward")
def test_what_a_forward_stores_in_the_model_is_taken_back():
    model = networks.StoringNet()
    trace_units(model, torch.randn(VECTOR))
    assert model.seen == []
    assert not hasattr(model, "features")


def test_an_unknown_site_is_refused_with_the_known_ones():
    with pytest.raises(KeyError, match="no activation site named 'relu'.*Its sites: 1, 3"):
        trace_units(zoo.mlp(), torch.randn(VECTOR))["relu"]


# -- no graph


def test_a_forward_that_depends_on_values_is_refused_with_the_module_that_does(capfd):
    model = nn.Sequential(nn.Linear(6, 6), networks.BranchingNet())
    with pytest.raises(UntraceableModel, match=r"1 \(BranchingNet\) stopped it.*torch.where"):
        trace_units(model, torch.randn(VECTOR))
    assert capfd.readouterr() == ("", "")


def test_a_model_without_forward_is_refused_with_what_to_do():
    """An agent as CleanRL writes it has other methods in its place."""
    with pytest.raises(UntraceableModel, match=r'missing the required "forward" function\. Give it one that calls all'):
        trace_units(nn.ModuleDict({"actor": zoo.mlp(), "critic": zoo.mlp()}), torch.randn(VECTOR))


def test_an_input_of_the_wrong_shape_is_refused_with_the_layer_that_stopped(capfd):
    model = zoo.mlp().train()
    with pytest.raises(UntraceableModel, match=r"example_input \(5, 4\) float32: 0 \(Linear\) stopped it.*runs"):
        trace_units(model, torch.randn(5, 4))
    assert model.training
    assert capfd.readouterr() == ("", "")


def test_what_is_no_python_model_is_refused():
    with pytest.raises(TypeError, match="nn.Module; got"):
        trace_units(torch.relu, torch.randn(VECTOR))
    with pytest.raises(TypeError, match="TorchScript"):
        trace_units(torch.jit.trace(zoo.mlp(), torch.randn(VECTOR)), torch.randn(VECTOR))
