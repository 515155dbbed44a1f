"""One activation for each place a forward calls a reused ReLU from, and for each round of a loop over layers."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint

import networks
from supple import AID, conversion_report, convert
from supple.convert.call_sites import CallSites
from written import class_of, holding, network_of


@holding(lambda: {"weight": nn.Parameter(torch.ones(()))})
class Scale(nn.Module):
    """An activation with a parameter, by which one sees who was called."""

    def forward(self, x):
        return torch.relu(x) * self.weight


def with_weights(model, *weights):
    """The model, with the i-th site's weight set to the i-th of the weights."""
    for scale, weight in zip((m for m in model.modules() if isinstance(m, Scale)), weights, strict=True):
        scale.weight.data.fill_(weight)
    return model


def by_hand(model, x, first, second):
    """What networks.MLP gives if its two sites multiply by these."""
    x = torch.relu(model.fc1(x)) * first
    return model.fc3(torch.relu(model.fc2(x)) * second)


def scaled():
    return with_weights(convert(networks.MLP(), Scale()), 2.0, 3.0), torch.randn(networks.VECTOR)


def test_the_first_call_goes_to_the_first_site_and_the_second_to_the_second_in_every_forward():
    model, x = scaled()
    for forward in (model, model, model.forward, model.forward):
        assert torch.equal(forward(x), by_hand(model, x, 2.0, 3.0))


def test_a_forward_that_broke_off_does_not_shift_the_next_one():
    model, x = scaled()
    broken = model.fc2
    model.fc2 = nn.Linear(1, 1)
    with pytest.raises(RuntimeError):
        model(x)
    model.fc2 = broken
    assert torch.equal(model(x), by_hand(model, x, 2.0, 3.0))


def test_copies_and_pickles_have_sites_of_their_own():
    model, x = scaled()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with_weights(other, 4.0, 5.0)
        assert torch.equal(other(x), by_hand(model, x, 4.0, 5.0))
        assert torch.equal(model(x), by_hand(model, x, 2.0, 3.0))


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpointing_recomputes_with_the_same_sites(reentrant):
    model = nn.Sequential(networks.MLP(), nn.Linear(3, 6), networks.MLP())
    with_weights(convert(model, Scale()), 2.0, 3.0, 4.0, 5.0)
    x = torch.randn(networks.VECTOR, requires_grad=True)
    model(x).sum().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    y = checkpoint(model[2], model[1](checkpoint(model[0], x, use_reentrant=reentrant)), use_reentrant=reentrant)
    y.sum().backward()
    for parameter, grad in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, grad, rtol=0, atol=0)


def test_a_site_that_only_training_calls_does_not_shift_those_of_evaluation():
    model, x = convert(networks.AuxiliaryNet(), Scale()), torch.randn(networks.VECTOR)
    auxiliary, main = model.act
    auxiliary.weight.data.fill_(7.0)
    main.weight.data.fill_(2.0)
    model.eval()
    expected = model.head(model.relu_1(torch.relu(model.fc1(x)) * 2.0))
    assert torch.equal(model(x), expected)


def test_calls_from_another_module_are_split_too():
    inner = nn.Module()
    inner.acts = nn.ModuleList([nn.ReLU()])
    outer = network_of("self.inner.acts[0](self.inner.acts[0](x) - 1)", inner=inner)
    model = with_weights(convert(outer(), Scale()), 2.0, 3.0)
    assert isinstance(model.inner.acts[0], CallSites)
    assert model(torch.tensor([1.0, -1.0])).tolist() == [3.0, 0.0]


def test_a_relu_called_by_two_modules_stays_one_and_is_reported():
    outer = network_of("self.block.act(self.block(x))", block=networks.Block(nn.ReLU()))
    model = convert(outer(), AID(p=0.9))
    assert isinstance(model.block.act, AID)
    assert "one instance serves the calls of Made and Block" in str(conversion_report(model))


def test_a_relu_called_once_stays_a_single_module():
    model = convert(networks.SharedActivationNet(), AID(p=0.9))
    assert not any(isinstance(module, CallSites) for module in model.modules())


def test_a_block_used_twice_is_reported():
    shared = networks.Block(nn.ReLU())
    twice = network_of("self.block(self.block(x))", block=networks.Block(nn.ReLU()))
    for model in (twice(), nn.Sequential(shared, shared)):
        notes = conversion_report(convert(model, AID(p=0.9))).notes
        assert [(note.what, "used more than once" in note.how) for note in notes] == [("Block", True)]


def test_a_site_keeps_its_activation_through_train_eval_and_pickling():
    model, x = convert(networks.AuxiliaryNet(), AID(p=1.0)), torch.randn(networks.VECTOR)
    model.relu_0, model.relu_1 = nn.Identity(), nn.Sigmoid()
    for other in (model, pickle.loads(pickle.dumps(model))):
        other.eval()
        assert torch.equal(other(x), model.head(torch.sigmoid(torch.relu(model.fc1(x)))))


LOOPS = {
    "for layer in self.layers": 3,
    "for i, layer in enumerate(self.layers)": 3,
    "for layer in self.layers[:-1]": 3,
    "for layer in reversed(self.layers)": 3,
    "for layer, _ in zip(self.layers, self.others)": 3,
    "for layer in (self.layers[i] for i in range(3))": 3,
    "for layer in self.both.values()": 2,
    "for layer in [self.layers[i] for i in range(self.depth)]": 3,
    "for layer in (getattr(self, 'layers')[i] for i in range(self.depth))": 3,
    "for layer in list(self.children())": 1,
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("call", ["F.relu(layer(x))", "self.act(layer(x))"])
def test_a_loop_over_layers_gets_one_activation_for_each_round(loop, call):
    forward = f"{loop}:\n    if x.dim() == 2:\n        x = {call}\nreturn x"
    layers = [nn.Linear(3, 3) for _ in range(3)]
    lists = {"layers": nn.ModuleList(layers), "others": nn.ModuleList(layers)}
    model = network_of(forward, both=nn.ModuleDict({"a": layers[0], "b": layers[1]}), depth=3, **lists)()
    if "children" in loop:
        model = network_of(forward.replace("layer(x)", "x"), depth=1)()
    if "act" in call or "children" in loop:
        model.act = nn.ReLU()
    convert(model, AID(p=0.9))
    num_unused = "children" in loop and "act" not in call
    assert sum(isinstance(module, AID) for module in model.modules()) - num_unused == LOOPS[loop]
    model(torch.randn(4, 3))


def test_each_round_of_a_loop_calls_its_own_activation_in_every_forward():
    layers = nn.ModuleList(nn.Identity() for _ in range(3))
    model = network_of("for layer in self.layers:\n    x = F.relu(layer(x))\nreturn x", layers=layers)()
    convert(model, AID(p=0.9))
    assert type(model.relu_0).__name__ == "CallSites"
    seen = []
    for i, activation in enumerate(model.relu_0):
        activation.register_forward_hook(lambda *_, i=i: seen.append(i))
    for _ in range(2):
        model(torch.randn(4, 3))
    assert seen == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("where", ["forward", "helper"])
def test_a_forward_that_was_cut_short_does_not_shift_the_rounds_of_the_next(where):
    loop = "    for layer in self.layers:\n        x = F.relu(layer(x))\n    return x\n"
    forward = "def forward(self, x):\n    return self.helper(x)\n" if where == "helper" else ""
    layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))
    model = class_of(f"def {where}(self, x):\n{loop}{forward}", layers=layers)()
    convert(model, AID(p=0.9))
    assert bool(model._forward_pre_hooks) == (where == "helper")  # a hook makes every call of the model slower
    seen = []
    for i, activation in enumerate(model.relu_0):
        activation.register_forward_hook(lambda *_, i=i: seen.append(i))
    model.layers[1].register_forward_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model(torch.randn(4, 3))
    model.layers[1]._forward_pre_hooks.clear()
    model(torch.randn(4, 3))
    assert seen == [0, 0, 1]


SHARED = {
    "while x.sum() > 1:\n    x = F.relu(x) - 1\nreturn x": ({"act", "relu_0"}, 1),
    "self.act(x) if x.sum() > 0 else self.act(-x)": ({"act"}, 1),
    "if x.sum() > 0:\n    x = self.act(x)\nif x.sum() > 1:\n    x = self.act(-x)\nreturn x": ({"act"}, 1),
    # The class changes anyway, so the reused module is split.
    "x = F.relu(x)\nreturn self.act(x) if x.sum() > 0 else self.act(-x)": ({"relu_0", "act.0", "act.1"}, 0),
}


@pytest.mark.parametrize("forward", SHARED)
def test_a_module_called_in_branches_and_loops_of_unknown_length_is_shared_and_reported_if_the_class_can_stay(forward):
    swapped, num_notes = SHARED[forward]
    model = network_of(forward, act=nn.ReLU())()
    cls = type(model)
    report = conversion_report(convert(model, AID(p=0.9)))
    assert {entry.where for entry in report.swapped} == swapped
    assert ["one instance serves all calls" in note.how for note in report.notes] == [True] * num_notes
    assert (type(model) is cls) == (swapped == {"act"})


def test_a_method_called_twice_gets_activations_for_both_calls():
    body = """
        def forward(self, x):
            return self.block(self.block(x) - 1)

        def block(self, x):
            return F.relu(x)
    """
    model = convert(class_of(body)(), AID(p=0.9))
    assert sum(isinstance(module, AID) for module in model.modules()) == 2


LAYERS = {"layers": lambda: nn.ModuleList(nn.Linear(4, 4) for _ in range(3)), "head": lambda: nn.Sequential(nn.ReLU())}


@holding(lambda: {name: make() for name, make in LAYERS.items()})
class Comprehension(nn.Module):
    def forward(self, x):
        return sum(F.relu(layer(x)) for layer in self.layers)


class HeadOfEach(Comprehension):
    def forward(self, x):
        return sum(self.head(layer(x)) for layer in self.layers)


class HeadOfSome(Comprehension):
    def forward(self, x):
        return sum(self.head(layer(x)) for layer in self.layers for odd in range(2) if odd)


class FunctionOfEach(Comprehension):
    def forward(self, x):
        for layer in self.layers:
            x = (lambda y, layer=layer: F.relu(layer(y)))(x)
        return x


def test_a_comprehension_over_layers_counts_its_rounds():
    assert len(convert(Comprehension(), AID(0.9)).relu_0) == 3
    assert isinstance(convert(FunctionOfEach(), AID(0.9)).relu_0, AID)  # it might run more than once a round
    shared = "used more than once, with the same activations [head]"
    assert shared in str(conversion_report(convert(HeadOfEach(), AID(0.9))))
    assert shared not in str(conversion_report(convert(HeadOfSome(), AID(0.9))))  # how often is not known


def same(function):
    return function


class Decorated(nn.Module):
    @same
    def forward(self, x):
        return F.relu(x)


def test_rewritten_code_stands_where_it_was_written():
    converted = convert(Decorated(), AID(0.9))
    assert type(converted).forward.__code__ is not Decorated.forward.__code__
    for place in ("co_firstlineno", "co_qualname", "co_filename"):
        assert getattr(type(converted).forward.__code__, place) == getattr(Decorated.forward.__code__, place)


@holding(lambda: {"act": F.relu, "weight": nn.Parameter(torch.ones(2))})
class HeldFunction(nn.Module):
    def forward(self, x):
        return F.relu(self.act(x * self.weight))


def test_function_held_by_a_part_is_named_by_its_path():
    assert "-> AID(p=0.9) [block.act]" in str(
        conversion_report(convert(nn.ModuleDict({"block": HeldFunction()}), AID(0.9)))
    )


def test_code_of_a_parametrised_module_is_read():
    network = parametrize.register_parametrization(HeldFunction(), "weight", nn.Identity())
    assert "relu in HeldFunction.forward" in str(conversion_report(convert(network, AID(0.9))))


def test_activation_made_and_called_at_once_overwrites_as_it_did():
    network = convert(network_of("h = x.clone()\nnn.ReLU(inplace=True)(h)\nreturn h")(), AID(1.0))
    x = torch.tensor([-1.0, 2.0])
    assert network(x).tolist() == [0.0, 2.0]


def test_report_says_which_curve_takes_the_place_of_a_smooth_one():
    report = conversion_report(convert(nn.Sequential(nn.GELU()), AID(0.75), replace=(nn.GELU,)))
    assert "a leaky ReLU of slope 0.75 above zero, 0.25 below" in str(report)


class CallsAct(nn.Module):
    def forward(self, x):
        return self.act(x)

    def act(self, x):
        return x


class Overriding(CallsAct):
    def act(self, x):
        return F.relu(x)


def test_method_of_the_class_itself_is_read_not_the_one_it_overrides():
    assert "relu in Overriding.act" in str(conversion_report(convert(Overriding(), AID(0.9))))
