"""S-EWC by hand over a change of the optimizer, and moments beside weights that Shrink & Perturb moves."""

import warnings

import pytest
import torch

from by_hand import linear, three_units, train_step
from supple.learner import Learner
from supple.methods import SEWC, ShrinkPerturb


def learner_of(model, optimizer=torch.optim.SGD):
    return Learner(model, optimizer(model.parameters()))


def test_two_steps_of_s_ewc_and_its_memory_outlives_the_optimizer():
    model = linear([[2.0]])
    learner, method = learner_of(model, torch.optim.Adam), SEWC(strength=2.0, mean_decay=0.9, fisher_decay=0.8)
    state = method.init(learner)

    def edited(gradient):
        model.weight.grad = torch.tensor([[gradient]])
        method.after_backward(learner, state)
        method.after_step(learner, state)
        return model.weight.grad.item()

    assert edited(3.0) == 3.0  # a = theta, so no penalty
    model.weight.data.fill_(1.4)
    learner.optimizer = torch.optim.Adam(model.parameters())
    method.begin_stage(learner, state, [], 1)
    # a = 0.9 * 0.1 * 2 + 0.1 * 1.4 = 0.32, over 1 - 0.81 = 0.19: 1.684211
    # f = 0.8 * 0.2 * 9 + 0.2 * 1 = 1.64, over 1 - 0.64 = 0.36: 4.555556
    # penalty = 2 * 4.555556 * (1.4 - 1.684211) = -2.589474
    assert edited(-1.0) == pytest.approx(-3.589474, rel=2e-7)
    assert state["step.weight"].item() == 2


def trained(optimizer):
    learner = learner_of(three_units(), optimizer)
    train_step(learner, torch.randn(16, 2))
    return learner


def test_weights_shrunk_in_full_are_the_initial_ones_bit_for_bit():
    learner = trained(torch.optim.Adam)
    assert not torch.equal(learner.model[0].weight, learner.initial["0.weight"])
    ShrinkPerturb(shrink=1.0, clear_moments=True).begin_stage(learner, {}, [], 1)
    assert all(torch.equal(p, learner.initial[name]) for name, p in learner.model.named_parameters())


def test_moments_that_stay_when_weights_are_shrunk_are_warned_of_once(recwarn):
    warnings.simplefilter("always")  # by default a line warns once, whoever asks
    learner = trained(torch.optim.Adam)
    for stage in (1, 2):
        ShrinkPerturb().begin_stage(learner, {}, [], stage)
    (warning,) = recwarn.list
    assert "keeps what Adam remembers" in str(warning.message)
    assert warning.filename == __file__


@pytest.mark.parametrize("case", ["cleared", "new optimizer", "no moments", "laboratory"])
def test_nothing_is_said_if_no_moments_stay_or_a_run_of_the_laboratory_keeps_them(case):
    learner = trained(torch.optim.SGD if case == "no moments" else torch.optim.Adam)
    if case == "new optimizer":
        learner.optimizer = torch.optim.Adam(learner.model.parameters())
    if case == "laboratory":
        learner.is_advised = False
    with warnings.catch_warnings(action="error"):
        ShrinkPerturb(clear_moments=case == "cleared").begin_stage(learner, {}, [], 1)
