"""S-EWC: two steps by hand, then the printed recursion."""

import pytest
import torch
from torch import nn

from supple.learner import Learner
from supple.methods import SEWC


class Scalar(nn.Module):
    def __init__(self, value: float) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor([value]))


def with_gradient(model: Scalar, method: SEWC, learner: Learner, state: dict, gradient: float) -> float:
    """The gradient after the method's edit."""
    model.theta.grad = torch.tensor([gradient])
    method.after_backward(learner, state)
    method.after_step(learner, state)
    return model.theta.grad.item()


def test_two_steps_computed_by_hand():
    model = Scalar(2.0)
    learner = Learner(model, torch.optim.SGD(model.parameters()))
    method = SEWC(strength=2.0, mean_decay=0.9, fisher_decay=0.8)
    state = method.init(learner)
    assert with_gradient(model, method, learner, state, 3.0) == 3.0  # a = theta, so no penalty
    with torch.no_grad():
        model.theta.fill_(1.4)
    # a = 0.9 * 0.1 * 2 + 0.1 * 1.4 = 0.32, over 1 - 0.81 = 0.19: 1.684211
    # f = 0.8 * 0.2 * 9 + 0.2 * 1 = 1.64, over 1 - 0.64 = 0.36: 4.555556
    # penalty = 2 * 4.555556 * (1.4 - 1.684211) = -2.589474
    assert with_gradient(model, method, learner, state, -1.0) == pytest.approx(-3.589474, rel=2e-7)


def test_constant_weights_are_never_penalised():
    model = nn.Linear(5, 5)
    learner, method = Learner(model, torch.optim.SGD(model.parameters())), SEWC(strength=1e6)
    state = method.init(learner)
    for _ in range(50):
        model.zero_grad()
        model(torch.randn(8, 5)).square().sum().backward()
        before = model.weight.grad.clone()
        method.after_backward(learner, state)
        method.after_step(learner, state)
        assert torch.equal(model.weight.grad, before)


def test_state_counts_steps_in_a_tensor_and_survives_a_rebuilt_optimizer():
    model = nn.Linear(3, 2)
    learner, method = Learner(model, torch.optim.Adam(model.parameters())), SEWC()
    state = method.init(learner)
    for _ in range(3):
        model(torch.randn(4, 3)).sum().backward()
        method.after_backward(learner, state)
        method.after_step(learner, state)
    fisher = state["fisher.weight"].clone()
    learner.optimizer = torch.optim.Adam(model.parameters())
    method.begin_stage(learner, state, [], 1)
    assert state["step.weight"].item() == state["step.bias"].item() == 3
    assert torch.equal(state["fisher.weight"], fisher)
    assert fisher.all()
