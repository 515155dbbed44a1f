"""L2: the penalty (strength/2) * ||theta||^2 in the loss, the paper's plainest regulariser."""

from dataclasses import dataclass

import torch

from supple.learner import Learner
from supple.methods.base import Method, State, non_negative


@dataclass(frozen=True, kw_only=True)
class L2(Method):
    """Adds strength * theta to the gradient of every trained parameter, biases and norms included.

    Where nothing is clipped it equals ``weight_decay=strength`` of torch's SGD and Adam (not AdamW's decoupled decay:
    the paper adds the penalty to the loss). Parameters that got no gradient are left alone, as torch does.
    """

    name = "l2"
    is_elementwise = True
    strength: float = 1e-4  # lambda; the paper's best on random-label MNIST with Adam at 1e-3

    def __post_init__(self) -> None:
        non_negative(self.strength, "L2.strength is the weight of the penalty (lambda)")

    @torch.no_grad()
    def after_backward(self, learner: Learner, state: State) -> None:
        _, thetas, gradients = learner.penalised()
        if gradients:  # torch's loops over tensors refuse to be empty
            torch._foreach_add_(gradients, thetas, alpha=self.strength)
