"""Surgery: exactly the entries of the chosen units change, in weights, norms and optimizer state."""

import dataclasses

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from by_hand import chain, chain_graph, conv_graph, conv_net, copied_state, three_units, unit_layer
from supple.units import Consumer, UnitGraph, surgery
from supple.units.surgery import UnitSelection


def chosen(units, due=None):
    return UnitSelection(torch.tensor(units), torch.tensor(due or [True] * len(units)))


def all_of(model):
    return {id(parameter) for parameter in model.parameters()}


def renew_(layer, chosen, fresh, trained):
    for entries, value in surgery.renewed(layer, chosen, [fresh], trained):
        entries.write_(value)


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.no_grad():
        yield


def test_incoming_rows_and_biases_become_what_was_given():
    model = three_units()
    layer = unit_layer(model, 1)
    new = torch.tensor([[9.0, 8.0], [7.0, 6.0]])
    renew_(layer, chosen([2, 0]), (new, torch.tensor([5.0, 4.0])), all_of(model))
    assert model[0].weight.tolist() == [[7.0, 6.0], [2.0, -1.0], [9.0, 8.0]]
    assert model[0].bias.tolist() == [4.0, 0.0, 5.0]


def test_units_that_are_not_due_keep_every_bit():
    model = three_units()
    layer, before = unit_layer(model, 1), copied_state(model)
    picked = chosen([2, 0], [False, False])
    renew_(layer, picked, (torch.full((2, 2), 9.0), torch.full((2,), 9.0)), all_of(model))
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_only_the_due_ones_of_the_chosen_change():
    model = three_units()
    renew_(unit_layer(model, 1), chosen([2, 0], [True, False]), (torch.zeros(2, 2), 0.0), all_of(model))
    assert model[2].weight.tolist() == [[1.0, 2.0, 0.0], [4.0, -5.0, 0.0]]


def test_every_consumer_is_cut_off():
    model, other = three_units(), nn.Conv1d(3, 2, 3)
    layer = unit_layer(model, 1)
    consumers = (*layer.consumers, Consumer(other, torch.tensor([[0], [1], [2]])))
    renew_(dataclasses.replace(layer, consumers=consumers), chosen([0]), (torch.zeros(1, 2), 0.0), all_of(model))
    assert not model[2].weight[:, 0].any()
    assert not other.weight[:, 0].any()
    assert other.weight[:, 1:].all()


def test_channels_last_weights_are_written_and_keep_their_layout():
    model = conv_net().to(memory_format=torch.channels_last)
    layer, stride = conv_graph(model)["2"], model[0].weight.stride()
    new = torch.full((1, 1, 3, 3), 9.0)
    renew_(layer, chosen([1]), (new, 1.0), all_of(model))
    assert torch.equal(model[0].weight[1], torch.full((1, 3, 3), 9.0))
    assert model[0].weight.stride() == stride


def test_norm_without_affine_part_has_its_statistics_reset():
    norm = nn.BatchNorm1d(3, affine=False)
    norm.running_mean.fill_(7.0)
    renew_(unit_layer(three_units(), 1, norm=norm), chosen([0]), (torch.zeros(1, 2), 0.0), all_of(norm))
    assert norm.running_mean.tolist() == [0.0, 7.0, 7.0]


def test_layers_between_two_optimizers_are_left_alone():
    model = chain(2, 3, 4, 1)
    optimizer = torch.optim.SGD(model[:3].parameters())
    layers = surgery.renewable_layers(chain_graph(model), optimizer)
    assert [layer.name for layer in layers] == ["1"]
    with pytest.warns(UserWarning, match=r"CBP leaves 1 .* \('3': the optimizer does not train its weights\)"):
        surgery.warn_of_others(chain_graph(model), optimizer, "CBP", served=layers)


@pytest.mark.parametrize(("widths", "shown"), [((3, 4, 5), "('1', '3', '5')"), ((3, 4, 5, 6), "('1', '3', '5', ...)")])
def test_warning_of_layers_left_alone_names_three_and_counts_all(widths, shown):
    graph = chain_graph(chain(2, *widths, 1))
    with pytest.warns(UserWarning, match=f"^CBP leaves {len(widths)} of the network's hidden layers alone") as warnings:
        surgery.warn_of_others(graph, torch.optim.SGD([torch.zeros(1)]), "CBP", served=[])
    told = str(warnings[0].message).replace(": the optimizer does not train its weights", "")
    assert shown.replace(", ", "; ") in told


def test_warning_that_lists_sentences_ends_with_one_full_stop():
    graph = UnitGraph((), ("F.relu in the forward of Net.", "F.relu in the forward of Part."))
    with pytest.warns(UserWarning, match=r"\(F.relu in the forward of Net; F.relu in the forward of Part\)\.$"):
        surgery.warn_of_others(graph, torch.optim.SGD([torch.zeros(1)]), "CBP", served=[])


def test_residual_layer_is_left_alone_by_design_and_warned_of_only_if_unclear():
    model = chain(2, 3, 4, 1)
    optimizer = torch.optim.SGD(model.parameters())
    layers = unit_layer(model, 1, sums_out=True), unit_layer(model, 3, sums_out=True, unclear="a matmul reads it")
    with pytest.warns(UserWarning, match=r"^CBP leaves 1 .* \('3': a matmul reads it\)"):
        surgery.warn_of_others(UnitGraph(layers, ()), optimizer, "CBP", served=[])


def frozen(model):
    model[0].requires_grad_(False)
    return unit_layer(model, 1)


def parametrized(model):
    weight_norm(model[2])
    return unit_layer(model, 1)


@pytest.mark.parametrize(
    ("hindered", "reason"),
    [
        (lambda model: unit_layer(model, 1, sums_out=True), "'1': a residual sum shares its units"),
        (lambda model: unit_layer(model, 1, unclear="a matmul reads it"), "'1': a matmul reads it"),
        (lambda model: unit_layer(model, 1, producer=None), "'1': no layer feeds or reads it"),
        (frozen, "'1': its weights are frozen"),
        (parametrized, "'1': a parametrization computes its weights"),
    ],
)
def test_network_without_renewable_units_is_refused_with_the_reason_and_a_way_out(hindered, reason):
    model = three_units()
    optimizer = torch.optim.SGD(model.parameters())
    graph = UnitGraph((hindered(model),), ("F.relu in the forward of Net.",))  # a sentence
    with pytest.raises(ValueError, match="^ReDo makes single hidden units new") as refusal:
        surgery.check_renewable(graph, optimizer, "ReDo")
    assert f"({reason}; F.relu in the forward of Net)" in str(refusal.value)
    assert "Use a method that needs no units" in str(refusal.value)


def test_refusal_of_a_deep_network_names_three_of_each_kind():
    model = three_units()
    layers = tuple(unit_layer(model, 1, sums_out=True) for _ in range(5))
    graph = UnitGraph(layers, tuple(f"relu{number} is called twice." for number in range(9)))
    with pytest.raises(ValueError, match="^ReDo makes") as refusal:
        surgery.check_renewable(graph, torch.optim.SGD(model.parameters()), "ReDo")
    residual = "'1': a residual sum shares its units; "
    assert f"({residual * 3}...; relu0 is called twice; relu1 is called twice; relu2 is called twice; ...)" in str(
        refusal.value
    )


def test_network_without_hidden_layers_is_refused():
    with pytest.raises(ValueError, match="it has no hidden layer"):
        surgery.check_renewable(UnitGraph((), ()), torch.optim.SGD([torch.zeros(1)]), "CBP")
