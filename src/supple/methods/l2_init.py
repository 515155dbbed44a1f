"""L2 Init (Kumar et al. 2023): the penalty (strength/2) * ||theta - theta_0||^2 towards the initial weights."""

from dataclasses import dataclass

import torch

from supple.learner import Learner
from supple.methods.base import Method, State, non_negative


@dataclass(frozen=True, kw_only=True)
class L2Init(Method):
    """Adds strength * (theta - theta_0) to the gradient of every trained parameter, biases and norms included.

    theta_0 is ``learner.initial`` and never moves. The penalty is a sum over all parameters, part of the loss, and so
    comes before any clipping.
    """

    name = "l2_init"
    is_elementwise = True
    strength: float = 1e-3  # lambda; the paper's best on random-label MNIST with Adam at 1e-3

    def __post_init__(self) -> None:
        non_negative(self.strength, "L2Init.strength is the weight of the penalty (lambda)")

    @torch.no_grad()
    def after_backward(self, learner: Learner, state: State) -> None:
        names, thetas, gradients = learner.penalised()
        if not names:  # torch's loops over tensors refuse to be empty
            return
        away = torch._foreach_sub(thetas, learner.initial_values(names))
        torch._foreach_add_(gradients, away, alpha=self.strength)
