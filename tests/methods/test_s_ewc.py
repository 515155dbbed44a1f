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


def test_first_step_adds_exactly_nothing():
    model = nn.Linear(50, 50)
    learner, method = Learner(model, torch.optim.SGD(model.parameters())), SEWC(strength=1e6)
    model(torch.randn(8, 50)).square().sum().backward()
    before = model.weight.grad.clone()
    method.after_backward(learner, method.init(learner))
    assert torch.equal(model.weight.grad, before)


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


def test_thousand_steps_follow_the_printed_recursion():
    model = nn.Linear(3, 2, bias=False).double()
    learner = Learner(model, torch.optim.SGD(model.parameters()))
    method, generator = SEWC(strength=0.5), torch.Generator().manual_seed(1)
    state = method.init(learner)
    a = f = torch.zeros(2, 3, dtype=torch.float64)
    for t in range(1, 1001):
        theta, g = (torch.randn(2, 3, dtype=torch.float64, generator=generator) for _ in range(2))
        with torch.no_grad():
            model.weight.copy_(theta)
        model.weight.grad = g.clone()
        method.after_backward(learner, state)
        method.after_step(learner, state)
        a = 0.999 * a + 0.001 * theta
        f = 0.999 * f + 0.001 * g**2
        penalty = 0.5 * (f / (1 - 0.999**t)) * (theta - a / (1 - 0.999**t))
        # The share of a step is a float32 number; its error of 1e-7 fades with the decay.
        torch.testing.assert_close(model.weight.grad, g + penalty, rtol=1e-5, atol=1e-5)


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


@pytest.mark.parametrize("field", ["mean_decay", "fisher_decay"])
@pytest.mark.parametrize("value", [0.0, 1.0, -0.5])
def test_decay_out_of_range_is_named(field, value):
    with pytest.raises(ValueError, match=rf"^SEWC\.{field} is .*; got {value}\.$"):
        SEWC(**{field: value})


def test_parameter_that_begins_to_train_later_counts_from_its_own_first_gradient():
    model = nn.ModuleDict({"early": nn.Linear(1, 1, bias=False), "late": nn.Linear(1, 1, bias=False)})
    learner, method = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1)), SEWC()
    state = method.init(learner)
    for _ in range(100):
        model["early"].weight.grad = torch.ones(1, 1)
        method.after_backward(learner, state)
        method.after_step(learner, state)
    model["late"].weight.grad = torch.full((1, 1), 2.0)
    method.after_backward(learner, state)
    method.after_step(learner, state)
    assert state["fisher.late.weight"].item() == 4.0
    assert [state[f"step.{name}.weight"].item() for name in ("early", "late")] == [101, 1]


def test_step_without_gradients_is_none():
    model = nn.Linear(1, 1)
    learner, method = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1)), SEWC()
    state = method.init(learner)
    method.after_backward(learner, state)
    method.after_step(learner, state)
    assert state["step.weight"].item() == 0
