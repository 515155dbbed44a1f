"""Tracing a module's own forward: what a trace would change in silence is noticed, reported, and left alone."""

import copy
import random
from collections import OrderedDict

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import networks
from supple import AID, conversion_report, convert
from supple.conversion.own_code import ends_with

quietly = torch.no_grad


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)


class Branching(Linear):
    def forward(self, x):
        return F.relu(self.fc(x)) if x.sum() > 0 else x


class BranchingOnADraw(Linear):
    def forward(self, x):
        return F.relu(self.fc(x)) if torch.rand(1).item() < 0.5 else x


class DrawingInPython(Linear):
    def forward(self, x):
        return F.relu(self.fc(x)) if random.random() < 0.5 else x


class Storing(Linear):
    def forward(self, x):
        self.features = F.relu(self.fc(x))
        return self.features


class Counting(Linear):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return F.relu(self.fc(x)) * self.calls


class Appending(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list = []

    def forward(self, x):
        self.seen.append(x)
        return F.relu(self.fc(x)) * len(self.seen)


class AskingTypes(Linear):
    def forward(self, x):
        return F.relu(self.fc(x)) if isinstance(x, torch.Tensor) else F.relu(x)


class WithoutGradients(Linear):
    def forward(self, x):
        with torch.no_grad():
            return F.relu(self.fc(x))


class SecretlyWithoutGradients(Linear):
    def forward(self, x):
        with quietly():
            return F.relu(self.fc(x))


class DecoratedWithoutGradients(Linear):
    @torch.no_grad()
    def forward(self, x):
        return F.relu(self.fc(x))


class WithoutAutocast(Linear):
    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            return F.relu(self.fc(x))


class Checkpointing(Linear):
    def forward(self, x):
        return checkpoint(lambda x: F.relu(self.fc(x)), x, use_reentrant=False)


class FixedTensor(Linear):
    def forward(self, x):
        return F.relu(self.fc(x)) + torch.Tensor([random.getrandbits(1)])


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


class WithItsOwnBackward(Linear):
    def forward(self, x):
        return StraightThrough.apply(F.relu(self.fc(x)))


class ForwardOnTheInstance(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.forward = lambda x: F.relu(x)


class HiddenUntraceable(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.order = [self.fc, nn.ReLU()]

    def forward(self, x):
        for module in self.order:
            x = module(x) if x.sum() > 0 else x
        return x


class MethodInALambda(Linear):
    def forward(self, x):
        return (lambda x: x.relu())(self.fc(x)) if x.sum() > 0 else x


class Helped(Linear):
    def forward(self, x):
        return rectified(self.fc(x))


def rectified(x):
    return F.relu(x) if x.sum() > 0 else x


LEFT = {
    Branching: "control flow depends on the data",
    BranchingOnADraw: "control flow depends on the data",
    DrawingInPython: "draws random numbers",
    Storing: "writes attributes (features)",
    Counting: "writes attributes (calls)",
    Appending: "writes attributes (seen)",
    AskingTypes: "isinstance",
    WithoutGradients: "switch",
    SecretlyWithoutGradients: "switches gradients",
    DecoratedWithoutGradients: "wrapped by torch",
    WithoutAutocast: "switch autocast",
    Checkpointing: "checkpoints",
    FixedTensor: "a trace",
    WithItsOwnBackward: "calls StraightThrough, of which a trace does not keep the backward",
    ForwardOnTheInstance: "not a method of the class",
    HiddenUntraceable: "control flow depends on the data",
    MethodInALambda: "control flow depends on the data",
    Helped: "control flow depends on the data",
}


def runs(model, x):
    """Outputs of a few runs from a fixed seed."""
    torch.manual_seed(2)
    random.seed(2)
    return [model(x) for _ in range(4)]


@pytest.mark.parametrize("network", LEFT, ids=lambda network: network.__name__)
def test_what_a_trace_would_change_is_left_and_reported(network):
    torch.manual_seed(0)
    model, x = network(), torch.randn(networks.VECTOR).abs()
    attributes = set(vars(model))
    expected = runs(copy.deepcopy(model), x)
    report = conversion_report(convert(model, AID(p=0.9), pool="keep"))
    assert [LEFT[network] in entry.how for entry in report.left] == [True] * len(report.left) != []
    assert not report.swapped
    assert type(model) is network
    assert set(vars(model)) - attributes == {"supple_conversion"}
    assert all(map(torch.equal, runs(model, x), expected))


def test_a_dict_of_a_special_kind_is_returned_as_that_kind():
    model = convert(networks.OrderedOutputNet(), AID(p=0.9))
    assert type(model(torch.randn(networks.VECTOR))) is OrderedDict
    assert "OrderedDict" in conversion_report(model).left[0].how


def test_children_of_an_untraceable_module_are_swapped_and_noted():
    report = conversion_report(convert(networks.BranchingNet(), AID(p=0.9)))
    assert [entry.where for entry in report.swapped] == ["act"]
    assert [note.where for note in report.notes] == ["act"]
    assert "one instance serves all calls" in report.notes[0].how
    assert "relu in BranchingNet.forward" in report.left[0].what


def test_a_child_named_relu_is_not_taken_for_a_functional_one():
    class Named(Linear):
        def __init__(self) -> None:
            super().__init__()
            self.relu = nn.ReLU()

        def forward(self, x):
            return self.relu(self.fc(x)) if x.sum() > 0 else x

    assert conversion_report(convert(Named(), AID(p=0.9))).left == ()


def test_a_child_named_relu_is_known_whatever_forward_calls_self():
    class Named(Linear):
        def __init__(self) -> None:
            super().__init__()
            self.relu = nn.ReLU()

        def forward(s, x):
            y = s.fc(x)
            return s.relu(y)

    assert conversion_report(convert(Named(), AID(p=0.9))).left == ()


def test_a_relu_of_the_first_argument_of_a_helper_is_still_mentioned():
    class Helped(Linear):
        @staticmethod
        def rectified(x):
            return x.relu() if x.sum() > 0 else x

        def forward(s, x):
            return s.rectified(s.fc(x))

    assert [entry.what for entry in conversion_report(convert(Helped(), AID(p=0.9))).left] == ["relu in Helped.forward"]


def test_the_last_of_two_names_in_one_instruction_counts():
    assert ends_with(("y", "s"), "s")  # STORE_FAST_LOAD_FAST of Python 3.13
    assert not ends_with(("s", "y"), "s")


def test_random_tensors_are_drawn_anew_at_every_call():
    class Noisy(Linear):
        def forward(self, x):
            return F.relu(self.fc(x)) + torch.randn(6) + torch.rand(x.shape[0], 1, dtype=x.dtype, device=x.device)

    original, x = Noisy(), torch.randn(networks.VECTOR)
    model = convert(copy.deepcopy(original), nn.ReLU())
    assert conversion_report(model).retyped
    assert all(map(torch.equal, runs(model, x), runs(original, x)))
    assert not torch.equal(model(x), model(x))


def test_buffers_updated_in_place_go_on_being_updated():
    class Running(Linear):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("num_calls", torch.zeros(()))

        def forward(self, x):
            self.num_calls.add_(1)
            return F.relu(self.fc(x)) * self.num_calls

    model, x = convert(Running(), AID(p=1.0)), torch.randn(networks.VECTOR)
    assert model.num_calls == 0
    assert torch.equal(model(x) * 2, model(x))


def test_assertions_on_shapes_are_kept():
    model = convert(networks.AssertingNet(), AID(p=1.0))
    assert conversion_report(model).retyped
    assert model(torch.randn(networks.VECTOR)).shape == networks.VECTOR
    with pytest.raises(AssertionError):
        model(torch.randn(2, 5, 6))


def test_a_relu_behind_a_switch_that_is_off_is_reported():
    class Switched(Linear):
        on = False

        def forward(self, x):
            return F.relu(self.fc(x)) if self.on else self.fc(x)

    assert "not called as the module is now" in conversion_report(convert(Switched(), AID(p=0.9))).left[0].how


def test_results_keep_their_structure():
    class Structured(Linear):
        def forward(self, batch):
            y = F.relu(self.fc(batch["x"]))
            return {"y": y, "rest": [(batch["x"], None), 3]}

    x = torch.randn(networks.VECTOR)
    result = convert(Structured(), AID(p=1.0))({"x": x})
    assert torch.equal(result["rest"][0][0], x)
    assert (type(result["rest"]), type(result["rest"][0]), result["rest"][0][1], result["rest"][1]) == (
        list,
        tuple,
        None,
        3,
    )


def test_training_flags_of_the_model_survive_tracing():
    model = networks.ResNet().train()
    model.layer1[0].bn1.eval()
    before = [module.training for module in networks_modules(model)]
    convert(model, AID(p=0.9))
    assert [module.training for module in networks_modules(model)] == before


def networks_modules(model):
    """The modules that a conversion does not replace."""
    return [module for module in model.modules() if isinstance(module, (nn.BatchNorm2d, networks.BasicBlock))]
