"""A renewed optimizer steps as a new one does; Adam from the memory that captured steps know."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from supple_lab.optimizer import SGD, Adam, Optimizer, set_learning_rate_


@dataclass(frozen=True, kw_only=True)
class OneOfTorchs(Optimizer):
    """As somebody might plug in."""

    name = "one_of_torchs_in_test"
    learning_rate: float = 1e-2
    kind: str = "NAdam"

    def build(self, parameters):
        settings = {"SGD": {"momentum": 0.9, "dampening": 0.5}, "Adagrad": {"initial_accumulator_value": 0.3}}
        return getattr(torch.optim, self.kind)(parameters, lr=self.learning_rate, **settings.get(self.kind, {}))


OWN = [Adam(), Adam(epsilon=1.5e-4), SGD()]
THEIRS = [OneOfTorchs(kind=kind) for kind in ("NAdam", "SGD", "Adagrad", "Rprop")]  # what they start from is not zeros


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))


def step_(model: nn.Module, optimizer: torch.optim.Optimizer, *, number: int) -> None:
    for k in range(number):
        optimizer.zero_grad()
        model(torch.full((4, 5), 0.1 * k + 1.0)).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("spec", [*OWN, *THEIRS], ids=repr)
def test_a_renewed_optimizer_steps_as_one_built_anew(spec: Optimizer):
    ours, theirs = network(), network()
    old, first = spec.build(ours.parameters()), spec.build(theirs.parameters())
    for model, optimizer in ((ours, old), (theirs, first)):
        step_(model, optimizer, number=3)
    for model, optimizer in ((ours, spec.renewed(old)), (theirs, spec.build(theirs.parameters()))):
        set_learning_rate_(optimizer, 0.02)
        step_(model, optimizer, number=3)
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


@pytest.mark.parametrize("spec", OWN, ids=repr)
def test_what_it_remembers_stays_where_it_is(spec: Optimizer):
    optimizer = spec.build((model := network()).parameters())
    step_(model, optimizer, number=2)

    def places() -> list[int]:
        return [part.data_ptr() for state in optimizer.state.values() for part in state.values()]

    before = places()
    assert spec.renewed(optimizer) is optimizer
    step_(model, optimizer, number=1)
    assert places() == before
