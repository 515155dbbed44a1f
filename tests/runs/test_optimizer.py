"""An optimizer that starts anew steps as a new one does, from the memory that captured steps know."""

import pytest
import torch
from torch import nn

from supple_lab.runs.optimizer import SGD, Adam, Optimizer, set_learning_rate_, start_anew_

OPTIMIZERS = [Adam(), Adam(epsilon=1.5e-4), SGD()]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))


def step_(model: nn.Module, optimizer: torch.optim.Optimizer, *, number: int) -> None:
    for k in range(number):
        optimizer.zero_grad()
        model(torch.full((4, 5), 0.1 * k + 1.0)).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("spec", OPTIMIZERS, ids=repr)
def test_an_optimizer_started_anew_steps_as_one_built_anew(spec: Optimizer):
    ours, theirs = network(), network()
    old, first = spec.build(ours.parameters()), spec.build(theirs.parameters())
    for model, optimizer in ((ours, old), (theirs, first)):
        step_(model, optimizer, number=3)
    start_anew_(old)
    for model, optimizer in ((ours, old), (theirs, spec.build(theirs.parameters()))):
        set_learning_rate_(optimizer, 0.02)
        step_(model, optimizer, number=3)
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


@pytest.mark.parametrize("spec", OPTIMIZERS, ids=repr)
def test_what_it_remembers_stays_where_it_is(spec: Optimizer):
    optimizer = spec.build((model := network()).parameters())
    step_(model, optimizer, number=2)

    def places() -> list[int]:
        return [part.data_ptr() for state in optimizer.state.values() for part in state.values()]

    before = places()
    start_anew_(optimizer)
    step_(model, optimizer, number=1)
    assert places() == before
