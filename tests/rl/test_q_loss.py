import pytest
import torch

from supple_lab.rl.replay import Transitions
from supple_lab.run.agent import q_loss


def transitions(action, reward, terminal) -> Transitions:
    nothing = torch.empty(len(action))
    return Transitions(nothing, torch.tensor(action), torch.tensor(reward), nothing, torch.tensor(terminal))


def test_loss_of_three_steps_computed_by_hand():
    values = torch.tensor([[1.0, 2.0], [0.0, 5.0], [1.0, 1.0]])
    next_values = torch.tensor([[10.0, 4.0], [7.0, 7.0], [0.5, 1.0]])
    steps = transitions([1, 1, 0], [1.0, -1.0, 0.25], [False, True, False])
    # errors: 2 - (1 + .5 * 10) = -4, linear; 5 - (-1) = 6, linear and terminal; 1 - (.25 + .5 * 1) = .25, quadratic
    wanted = ((4 - 0.5) + (6 - 0.5) + 0.25**2 / 2) / 3
    assert q_loss(values, next_values, steps, discount=0.5).item() == pytest.approx(wanted)


def test_gradient_reaches_the_value_of_the_action_taken_alone():
    values = torch.zeros(2, 3, requires_grad=True)
    next_values = torch.ones(2, 3, requires_grad=True)
    q_loss(values, next_values, transitions([2, 0], [0.0, 0.0], [False, False]), discount=1.0).backward()
    assert values.grad.ne(0).tolist() == [[False, False, True], [True, False, False]]
    assert next_values.grad is None
