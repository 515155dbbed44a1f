"""The loss of DQN (Mnih et al. 2015): Huber, between the value of what was done and what it turned out to be worth."""

import torch.nn.functional as F
from torch import Tensor

from supple_lab.rl.replay import Transitions


def q_loss(values_BA: Tensor, next_values_BA: Tensor, transitions: Transitions, *, discount: float) -> Tensor:
    """Mean over the batch. ``next_values_BA`` are the target network's; a terminal step has no next value."""
    value_B = values_BA.gather(1, transitions.action_B[:, None]).squeeze(1)
    future_B = next_values_BA.detach().amax(dim=1) * ~transitions.terminal_B
    return F.smooth_l1_loss(value_B, transitions.reward_B + discount * future_B)
