"""Wasserstein initialisation regulariser (Lewandowski et al. 2023): L2 Init between sorted weights."""

from dataclasses import dataclass

import torch

from supple.learner import Learner
from supple.methods.base import Method, State, non_negative


@dataclass(frozen=True, kw_only=True)
class WassersteinInit(Method):
    """Adds strength * (theta - theta_0 of the same rank) to the gradient of every trained parameter.

    The k-th smallest weight of a tensor is drawn to its k-th smallest initial one, so that weights keep their
    distribution and may change places. A sum over all parameters, as L2Init; some code takes means.
    """

    name = "wasserstein_init"
    strength: float = 1e-3  # lambda

    def __post_init__(self) -> None:
        non_negative(self.strength, "WassersteinInit.strength is the weight of the penalty (lambda)")

    def init(self, learner: Learner) -> State:
        own = learner.own_parameters()
        return {f"sorted.{name}": learner.initial[name].flatten().sort().values for name in own}

    @torch.no_grad()
    def after_backward(self, learner: Learner, state: State) -> None:
        for name, theta, gradient in zip(*learner.penalised(), strict=True):
            if f"sorted.{name}" not in state:  # it was frozen until now
                (initial,) = learner.initial_values([name])
                state[f"sorted.{name}"] = initial.flatten().sort().values
            order = theta.flatten().argsort(stable=True)
            target = torch.empty_like(state[f"sorted.{name}"]).scatter_(0, order, state[f"sorted.{name}"])
            gradient.add_(theta - target.view_as(theta), alpha=self.strength)
