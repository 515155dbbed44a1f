"""Saved: a checkpoint is what a method remembers; its settings are those of the method that is attached."""

import copy
from dataclasses import replace
from typing import Literal, get_args, get_origin

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from supple import attach
from supple.fields import kinds_of
from supple.methods import CBP
from test_every_method import METHODS, mlp, quick, stages

DATA = stages(2, 2)


def made(method):
    torch.manual_seed(0)
    model = mlp(nn.ReLU)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    parts = model, optimizer, attach(model, optimizer, method, example_input=DATA[0][0][0], loss=F.cross_entropy)
    parts[2].recent_data = DATA[0]
    return parts


def train(parts, data):
    model, optimizer, plasticity = parts
    for x, y in data:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        plasticity.see_loss(loss)
        optimizer.step()
    plasticity.end_stage(data)
    plasticity.begin_stage(data)
    return model.state_dict()


def load(parts, others):
    for part, other in zip(parts, others, strict=True):
        part.load_state_dict(copy.deepcopy(other.state_dict()))


def other_settings(method):
    """The method with one field after the other changed, as far as it takes that."""
    for name, (kind, _) in kinds_of(type(method)).items():
        value, others = getattr(method, name), []
        if isinstance(value, bool) or get_origin(kind) is Literal:
            others = [other for other in (get_args(kind) or (True, False)) if other != value]
        elif isinstance(value, int | float | None):
            others = [2] if value is None else [value + 1 if isinstance(value, int) else value * 0.9]
        for other in others:
            try:
                yield replace(method, **{name: other})
            except (TypeError, ValueError):
                continue


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cls", [cls for cls in METHODS if cls.acts_in() and cls.name != "chain"], ids=lambda c: c.name)
def test_checkpoint_of_other_settings_is_taken_and_the_attached_ones_hold_or_it_is_refused(cls):
    for other in other_settings(quick(cls)):
        for before, after in ((quick(cls), other), (other, quick(cls))):
            parts, resumed = made(before), made(after)
            train(parts, DATA[0])
            try:
                load(resumed, parts)
            except ValueError as error:
                assert "other settings of the method" in str(error)  # noqa: PT017
                continue
            parts[2].methods = (after,)  # the settings of a training in progress
            for here, there in zip(*(train(each, DATA[1]).values() for each in (parts, resumed)), strict=True):
                assert torch.equal(here, there), (before, after)


def test_units_renewed_with_clocks_have_none_in_a_training_that_goes_on_without():
    parts, resumed = made(CBP(replacement_rate=0.2, maturity=0)), made(CBP(replacement_rate=0.0, moments="clear"))
    train(parts, DATA[0])
    load(resumed, parts)
    parts[2].detach()
    for here, there in zip(*(train(each, DATA[1]).values() for each in (parts, resumed)), strict=True):
        assert torch.equal(here, there)
