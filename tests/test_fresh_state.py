"""What an optimizer forgets: it then steps as a new one does, in place where new means zeros."""

import pytest
import torch
from torch import nn

from supple.learner import forget_, starts_from_zeros

MAKERS = {
    "adam": (torch.optim.Adam, {}, True),
    "fused adam, amsgrad": (torch.optim.Adam, {"fused": True, "amsgrad": True}, True),
    "adamw": (torch.optim.AdamW, {}, True),
    "adamax": (torch.optim.Adamax, {}, True),
    "adadelta": (torch.optim.Adadelta, {}, True),
    "rmsprop": (torch.optim.RMSprop, {"momentum": 0.9, "centered": True}, True),
    "sgd": (torch.optim.SGD, {}, True),
    "momentum": (torch.optim.SGD, {"momentum": 0.9, "dampening": 0.5}, False),
    "nadam": (torch.optim.NAdam, {}, False),
    "rprop": (torch.optim.Rprop, {}, False),
}
each = pytest.mark.parametrize(("kind", "settings", "from_zeros"), MAKERS.values(), ids=MAKERS)


def step_(model, optimizer):
    for number in (1.0, 2.0):
        optimizer.zero_grad()
        model(torch.full((4, 3), number)).square().sum().backward()
        optimizer.step()


@each
def test_optimizer_that_forgot_steps_as_a_new_one(kind, settings, from_zeros):
    ours, theirs = nn.Linear(3, 2), nn.Linear(3, 2)
    optimizer = kind(ours.parameters(), lr=0.1, **settings)
    step_(ours, optimizer)
    places = [part.data_ptr() for state in optimizer.state.values() for part in state.values()]
    theirs.load_state_dict(ours.state_dict())
    forget_(optimizer, ours.parameters())
    step_(ours, optimizer)
    step_(theirs, kind(theirs.parameters(), lr=0.1, **settings))
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))
    now = [part.data_ptr() for state in optimizer.state.values() for part in state.values()]
    assert starts_from_zeros(optimizer) == from_zeros
    assert not from_zeros or now == places


def test_a_kind_made_from_another_is_not_taken_for_it():
    class Otherwise(torch.optim.Adam):
        pass

    assert not starts_from_zeros(Otherwise(nn.Linear(1, 1).parameters()))


def test_what_it_knows_of_other_parameters_stays():
    model, other = nn.Linear(3, 3), nn.Linear(3, 2)
    optimizer = torch.optim.Adam([*model.parameters(), *other.parameters()], lr=0.1)
    step_(nn.Sequential(model, other), optimizer)
    before = optimizer.state[other.weight]["exp_avg"].clone()
    forget_(optimizer, model.parameters())
    assert not optimizer.state[model.weight]["exp_avg"].any()
    assert torch.equal(optimizer.state[other.weight]["exp_avg"], before)


def test_what_does_not_suit_the_parameter_any_more_is_dropped():
    model = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    step_(model, optimizer)
    model.to(torch.float64)
    optimizer.state[model.bias]["step"] = 2  # a number, as torch had it once
    forget_(optimizer, model.parameters())
    assert not optimizer.state
    step_(model.to(torch.float32), optimizer)
