"""Layers that are frozen while a method is attached stay as they are, and are served again once they thaw."""

import pytest
import torch
from test_newer_attached import METHODS as NEWER
from torch import nn

from supple import attach, methods
from test_attach import DATA, loss_of, network
from test_attach import METHODS as OLDER

ALL = [*OLDER, *NEWER, methods.CBP(replacement_rate=0.05, maturity=3, residual="all")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("frozen", [slice(None), slice(0, 3)], ids=["all", "hidden"])
@pytest.mark.parametrize("method", ALL, ids=lambda method: f"{method.name}-{ALL.index(method)}")
def test_layers_frozen_in_mid_training_stay_and_go_on_when_they_thaw(method, frozen):
    model, other = network(), nn.Linear(8, 3)
    optimizer = torch.optim.Adam([*model.parameters(), *other.parameters()], lr=1e-2)
    plasticity = attach(model, optimizer, method, example_input=DATA[0][0], loss=loss_of)

    def train(data):
        for x, y in data:
            optimizer.zero_grad()
            loss_of(model(x) + other(x), y).backward()
            optimizer.step()
        plasticity.end_stage(data)
        plasticity.begin_stage(data)
        return [parameter.detach().clone() for parameter in model[frozen].parameters()]

    before, served = train(DATA[:5]), str(plasticity)
    model[frozen].requires_grad_(False)
    assert all(map(torch.equal, before, train(DATA[5:10])))
    model.requires_grad_(True)
    train(DATA[10:15])
    assert str(plasticity).splitlines()[1:] == served.splitlines()[1:]
