"""Shrink & Perturb: part of the way back to the start, between stages."""

import warnings

import pytest
import torch
from torch import nn

from by_hand import copied_state, linear
from supple.learner import Learner
from supple.methods import ShrinkPerturb


def net():
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))


def trained(model, optimizer):
    learner = Learner(model, optimizer)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(16, 4)).square().mean().backward()
        optimizer.step()
    return learner


def test_weights_move_back_by_the_share():
    model = linear([[1.0, -2.0]], [4.0])
    learner = Learner(model, torch.optim.SGD(model.parameters()))
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[5.0, 2.0]]))
        model.bias.fill_(0.0)
    ShrinkPerturb(shrink=0.25).begin_stage(learner, {}, [], 1)
    assert model.weight.tolist() == [[4.0, 1.0]]  # 0.75 * 5 + 0.25 * 1, 0.75 * 2 - 0.25 * 2
    assert model.bias.tolist() == [1.0]


@pytest.mark.parametrize("shrink", [0.0, 1.0])
def test_ends_of_the_range_are_the_trained_and_the_initial_weights_bit_for_bit(shrink):
    model = net()
    learner = trained(model, torch.optim.Adam(model.parameters(), lr=0.1))
    before = copied_state(model)
    ShrinkPerturb(shrink=shrink).begin_stage(learner, {}, [], 1)
    expected = learner.initial if shrink else before
    assert all(torch.equal(p, expected[name]) for name, p in model.named_parameters())


def test_moments_that_stay_are_warned_of_once(recwarn):
    model = net()
    learner = trained(model, torch.optim.Adam(model.parameters(), lr=0.1))
    for stage in (1, 2):
        ShrinkPerturb().begin_stage(learner, {}, [], stage)
    (warning,) = recwarn.list
    assert "keeps what Adam remembers" in str(warning.message)
    assert warning.filename == __file__


@pytest.mark.parametrize("case", ["cleared", "new optimizer", "no moments", "laboratory"])
def test_nothing_is_said_if_no_moments_stay_or_a_run_of_the_laboratory_keeps_them(case):
    model = net()
    plain = torch.optim.SGD(model.parameters())
    learner = trained(model, plain if case == "no moments" else torch.optim.Adam(model.parameters()))
    if case == "new optimizer":
        learner.optimizer = torch.optim.Adam(model.parameters())
    if case == "laboratory":
        learner.is_advised = False
    with warnings.catch_warnings(action="error"):
        ShrinkPerturb(clear_moments=case == "cleared").begin_stage(learner, {}, [], 1)
