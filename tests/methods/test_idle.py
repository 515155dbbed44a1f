"""A method whose hooks a loop forgets says so."""

import warnings

import pytest
import torch
from torch import nn

from supple.learner import Learner
from supple.methods import CBP, DASH, L2, SEWC, FullReset, L2Init, ReDo, ShrinkPerturb, UseAID, Vanilla

PATIENCE = 30  # in place of 1000 steps


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch):
    monkeypatch.setattr("supple.methods.base.PATIENCE", PATIENCE)


def training(method, num_steps, called=(), boundary=None):
    """A loop that calls these hooks of the method alone."""
    model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    learner = Learner(model, torch.optim.SGD(model.parameters(), 0.0), example_input=torch.ones(2, 2))
    learner.is_advised = False
    state = method.init(learner)
    for step in range(num_steps):
        learner.optimizer.zero_grad()
        model(torch.ones(4, 2)).sum().backward()
        for hook in called:
            if hook == "after_step":
                learner.optimizer.step()
            getattr(method, hook)(learner, state)
        if "after_step" not in called:
            learner.optimizer.step()
        if step == boundary:
            method.begin_stage(learner, state, [], 1)


BETWEEN = [ReDo(), ShrinkPerturb(), DASH(), FullReset()]
WITHIN = [L2(), L2Init(), SEWC(), CBP()]


@pytest.mark.parametrize("called", [(), ("after_backward", "after_step")], ids=["no hook", "hooks of a step"])
@pytest.mark.parametrize("method", BETWEEN, ids=lambda method: method.name)
def test_loop_without_stages_is_warned_once_of_a_method_that_acts_between_them(method, called, recwarn):
    training(method, PATIENCE, called)
    assert not recwarn.list
    training(method, 2 * PATIENCE, called)
    (warning,) = recwarn.list
    hook = "end_stage" if isinstance(method, ReDo) else "begin_stage"
    assert f"{type(method).__name__} has done nothing so far. It acts in method.{hook}(...)" in str(warning.message)
    assert warning.filename == __file__


@pytest.mark.parametrize("method", WITHIN, ids=lambda method: method.name)
def test_loop_that_calls_no_hook_is_warned_at_the_second_step(method, recwarn):
    training(method, 1)
    assert not recwarn.list
    training(method, 5)
    (warning,) = recwarn.list
    hook = "after_step" if isinstance(method, CBP) else "after_backward"
    assert f"It acts in method.{hook}(...), not called in two steps" in str(warning.message)


@pytest.mark.parametrize("method", [Vanilla(), UseAID(), *WITHIN, ShrinkPerturb()], ids=lambda method: method.name)
def test_loop_that_forgets_nothing_is_not_warned(method):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        training(method, PATIENCE + 5, ("after_backward", "after_step"), boundary=PATIENCE - 2)
