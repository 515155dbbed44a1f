"""What the report says of methods that forward does not call."""

import functools
import types

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.functional import relu

from supple import AID, conversion_report, convert
from supple.conversion.other_methods import NOT_FORWARD

ACTIVATE = functools.partial(F.relu, inplace=True)
NAME = "relu"


class Agent(nn.Module):
    """Without a forward: its methods are called by their names."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.relu, self.value = nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)
        self.choose()

    def choose(self):
        self.activate = F.relu

    def function(self, x):
        return self.value(F.relu(self.body(x)))

    def by_long_name(self, x):
        return torch.nn.functional.relu6(x)

    def imported(self, x):
        return relu(x)

    def tensor_method(self, x):
        return self.body(x).relu()

    def in_a_lambda(self, x):
        return [(lambda y: y.relu_())(part) for part in x]

    @torch.no_grad()
    def decorated(self, x):
        return torch.relu(x)

    @staticmethod
    def partial(x):
        return ACTIVATE(x)

    def pooled(self, x):
        return F.max_pool2d(x, 2)

    def harmless(self, x, block):
        nn.init.kaiming_normal_(self.body.weight, nonlinearity="relu")
        return self.relu(x) + block.relu(x) + self.activate(F.gelu(x)), NAME


class Network(nn.Module):
    """With a forward that calls one of its methods."""

    def forward(self, x):
        return self.features(x)

    def features(self, x):
        return F.relu(x)

    def score(self, x):
        return F.relu(x).sum()


def named(model: nn.Module, **options) -> set[str]:
    """The functions in other methods that the report names."""
    report = conversion_report(convert(model, AID(0.9), **options))
    return {f"{entry.where}: {entry.what}" for entry in report.left if entry.how == NOT_FORWARD}


RELUS = {
    "relu in Agent.function",
    "relu6 in Agent.by_long_name",
    "relu in Agent.imported",
    "relu in Agent.tensor_method",
    "relu_ in Agent.in_a_lambda",
    "relu in Agent.decorated",
    "relu in Agent.partial",
}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, RELUS | {"max_pool2d in Agent.pooled"}),
        ({"pool": "keep"}, RELUS),
        ({"replace": (nn.GELU,), "pool": "keep"}, {"gelu in Agent.harmless"}),
    ],
)
def test_functions_to_be_replaced_are_named_in_methods_that_forward_does_not_call(options, expected):
    assert named(nn.Sequential(Agent()), **options) == {f"0: {what}" for what in expected}


def test_a_method_that_forward_calls_is_not_among_them_before_and_after_its_class_changed():
    model = Network()
    assert named(model) == {": relu in Network.score"}
    assert named(model) == {": relu in Network.score"}


class Base(nn.Module):
    """Its forward calls one method by name and one by getattr."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def act(self, x):
        return F.relu(x)

    def late(self, x):
        return F.relu(x)

    def forward(self, x):
        return getattr(self, "late")(self.last(self.act(self.first(x))))  # noqa: B009


class Heir(Base):
    def forward(self, x):
        return super().forward(x) * 2


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def encode(self, x):
        return F.relu(self.layer(x))


class Caller(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Encoder()

    def forward(self, x):
        return self.part.encode(x)


@pytest.mark.parametrize("build", [Base, Heir, Caller])
def test_methods_that_a_forward_reaches_on_any_way_are_not_named(build):
    assert NOT_FORWARD not in str(conversion_report(convert(build(), AID(0.7))))


class Lazy(types.ModuleType):
    """Imports what it is asked for, and cannot."""

    def __getattr__(self, name):
        raise ModuleNotFoundError(name)


LAZY = Lazy("lazy")


class Asks(Base):
    def other(self):
        return LAZY.network(self)


def test_modules_that_import_when_asked_are_not_asked():
    convert(Asks(), AID(0.7))
