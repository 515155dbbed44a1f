"""Methods beside forward: their calls are replaced too, and reported if they cannot be."""

import functools
import types

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.functional import relu

from supple import AID, conversion_report, convert
from written import holding

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
        return [(lambda y: (y + 0).relu_())(part) for part in x]

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


class Scored(Network):
    def score(self, x):
        return F.gelu(x).sum()


def entries(model: nn.Module, section: str, **options) -> set[str]:
    """The calls in methods that a section of the report names, without their lines."""
    report = conversion_report(convert(model, AID(0.9), **options))
    return {entry.what.partition(",")[0] for entry in getattr(report, section) if " in " in entry.what}


RELUS = {
    "relu in Agent.function",
    "relu6 in Agent.by_long_name",
    "relu in Agent.imported",
    "relu in Agent.tensor_method",
    "relu_ in Agent.in_a_lambda",
    "relu in Agent.decorated",
}


@pytest.mark.parametrize(
    ("options", "swapped", "left"),
    [
        ({}, RELUS | {"max_pool2d in Agent.pooled"}, {"relu in Agent.partial", "gelu in Agent.harmless"}),
        ({"pool": "keep"}, RELUS, {"relu in Agent.partial", "gelu in Agent.harmless"}),
        ({"replace": (nn.GELU,), "pool": "keep"}, {"gelu in Agent.harmless"}, RELUS | {"relu in Agent.harmless"}),
    ],
)
def test_functions_are_replaced_in_methods_that_forward_does_not_call(options, swapped, left):
    assert entries(nn.Sequential(Agent()), "swapped", **options) == swapped
    assert entries(nn.Sequential(Agent()), "left", **options) == left


def test_of_methods_beside_a_forward_only_what_would_be_replaced_is_listed():
    assert entries(Scored(), "left") == set()


def test_methods_of_an_agent_without_forward_run_the_new_activations():
    agent = convert(Agent(), nn.Softplus())
    x = torch.randn(3, 4)
    assert torch.equal(agent.function(x), agent.value(F.softplus(agent.body(x))))
    assert torch.equal(agent.imported(x), F.softplus(x))
    assert torch.equal(agent.in_a_lambda([x.clone()])[0], F.softplus(x))
    assert torch.equal(agent.partial(x.clone()), F.relu(x))


def test_a_method_that_forward_calls_and_one_that_it_does_not_are_both_replaced_once():
    model = Network()
    assert entries(model, "swapped") == {"relu in Network.features", "relu in Network.score"}
    assert len(conversion_report(convert(model, AID(0.9))).swapped) == 2


@holding(lambda: {"first": nn.Linear(4, 4), "last": nn.Linear(4, 4)})
class Base(nn.Module):
    """Its forward calls one method by name and one by getattr."""

    def act(self, x):
        return F.relu(x)

    def late(self, x):
        return F.relu(x)

    def forward(self, x):
        return getattr(self, "late")(self.last(self.act(self.first(x))))  # noqa: B009


class Heir(Base):
    def forward(self, x):
        return super().forward(x) * 2


@holding(lambda: {"layer": nn.Linear(4, 4)})
class Encoder(nn.Module):
    def encode(self, x):
        return F.relu(self.layer(x))


@holding(lambda: {"part": Encoder()})
class Caller(nn.Module):
    def forward(self, x):
        return self.part.encode(x)


@pytest.mark.parametrize("build", [Base, Heir, Caller])
def test_methods_that_a_forward_reaches_on_any_way_run_the_new_activations(build):
    model, x = convert(build(), nn.Softplus()), torch.randn(3, 4)
    if build is Caller:
        expected = F.softplus(model.part.layer(x))
    else:
        expected = F.softplus(model.last(F.softplus(model.first(x)))) * (2 if build is Heir else 1)
    assert torch.equal(model(x), expected)
    assert conversion_report(model).left == ()


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
