"""The loss of DQN (Mnih et al. 2015): Huber, between the value of what was done and what it turned out to be worth."""

import torch.nn.functional as F
from torch import Tensor

from supple_lab.rl.replay import Transitions


def q_loss(values_BA: Tensor, next_values_BA: Tensor, transitions: Transitions, *, discount: float) -> Tensor:
    """Mean over the batch. ``next_values_BA`` are the target network's; a terminal step has no next value."""
    return huber(values_BA, transitions.action_B, worth(next_values_BA, transitions, discount=discount))


def worth(next_values_BA: Tensor, transitions: Transitions, *, discount: float) -> Tensor:
    """What each step turned out to be worth: its reward, and the best that the next state promises."""
    future_B = next_values_BA.detach().amax(dim=1) * ~transitions.terminal_B
    return transitions.reward_B + discount * future_B


def huber(values_BA: Tensor, action_B: Tensor, worth_B: Tensor) -> Tensor:
    """Mean Huber loss, with its corner at 1, of the values of the actions taken."""
    return F.smooth_l1_loss(values_BA.gather(1, action_B[:, None]).squeeze(1), worth_B)
