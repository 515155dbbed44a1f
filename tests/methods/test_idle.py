"""A method whose hooks a loop forgets says so."""

import warnings

import pytest
import torch
from torch import nn

from supple.learner import PATIENCE, Learner
from supple.methods import DASH, L2, FullReset, L2Init, ReDo, ShrinkPerturb, UseAID, Vanilla


def learner() -> Learner:
    model = nn.Linear(2, 2)
    return Learner(model, torch.optim.SGD(model.parameters()))


@pytest.mark.parametrize("method", [ReDo(), ShrinkPerturb(), DASH(), FullReset()], ids=lambda method: method.name)
def test_loop_without_stages_is_warned_once_of_a_method_that_acts_between_them(method, recwarn):
    own = learner()
    for step in range(1, 2 * PATIENCE):
        method.after_backward(own, {})
        method.after_step(own, {})
        assert len(recwarn.list) == (step >= PATIENCE)
    (warning,) = recwarn.list
    hook = "end_stage" if isinstance(method, ReDo) else "begin_stage"
    assert f"{type(method).__name__} has done nothing so far. It acts in method.{hook}(...)" in str(warning.message)
    assert warning.filename == __file__


@pytest.mark.parametrize("method", [L2(), L2Init()], ids=lambda method: method.name)
def test_step_without_the_edit_of_gradients_is_warned_of(method):
    with pytest.warns(UserWarning, match=r"It acts in method\.after_backward\(\.\.\.\), not called in this step"):
        method.after_step(learner(), {})


@pytest.mark.parametrize("method", [Vanilla(), UseAID(), L2(), ShrinkPerturb()], ids=lambda method: method.name)
def test_loop_that_forgets_nothing_is_not_warned(method):
    own = learner()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in range(PATIENCE + 1):
            method.after_backward(own, {})
            method.after_step(own, {})
            if step == PATIENCE - 2:
                method.begin_stage(own, {}, [], 1)
