"""L2: weight decay that is part of the loss."""

import copy

import pytest
import torch
from torch import nn

from by_hand import linear
from supple.learner import Learner
from supple.methods import L2


def test_gradient_grows_by_strength_times_weight():
    model = linear([[1.0, -2.0]], [4.0])
    learner = Learner(model, torch.optim.SGD(model.parameters()))
    model.weight.grad, model.bias.grad = torch.tensor([[0.5, 0.25]]), torch.tensor([0.0])
    L2(strength=0.125).after_backward(learner, {})
    assert model.weight.grad.tolist() == [[0.625, 0.0]]  # 0.5 + 0.125 * 1, 0.25 + 0.125 * -2
    assert model.bias.grad.tolist() == [0.5]
    assert model.weight.tolist() == [[1.0, -2.0]]


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_training_equals_the_optimizers_own_weight_decay_step_by_step(optimizer):
    ours = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))
    theirs = copy.deepcopy(ours)
    plain = optimizer(ours.parameters(), lr=0.05)
    decaying = optimizer(theirs.parameters(), lr=0.05, weight_decay=0.02)
    learner, method = Learner(ours, plain), L2(strength=0.02)
    for _ in range(30):
        x = torch.randn(16, 4)
        for model, own in ((ours, plain), (theirs, decaying)):
            own.zero_grad()
            model(x).square().mean().backward()
            if model is ours:
                method.after_backward(learner, {})
            own.step()
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(mine, other)


def test_parameters_without_gradient_are_left_alone():
    model = linear([[1.0, -2.0]], [4.0])
    model.weight.grad = torch.zeros(1, 2)
    L2(strength=1.0).after_backward(Learner(model, torch.optim.SGD(model.parameters())), {})
    assert model.bias.grad is None


def test_strength_out_of_range_is_named():
    with pytest.raises(ValueError, match=r"^L2\.strength is .*at least 0; got -0\.0001\.$"):
        L2(strength=-1e-4)
