"""Wasserstein initialisation regulariser (Lewandowski et al. 2023): L2 Init between sorted weights."""

from dataclasses import dataclass

import torch
from torch import Tensor

from supple.learner import Learner
from supple.methods.base import Method, State, non_negative


@dataclass(frozen=True, kw_only=True)
class WassersteinInit(Method):
    """Adds strength * (theta - theta_0 of the same rank) to the gradient of every trained parameter.

    The k-th smallest weight of a tensor is drawn to its k-th smallest initial one, so that weights keep their
    distribution and may change places. Of equal ones the first comes first. A sum over all parameters, as in L2Init,
    is our choice; public code takes the mean of each tensor.
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
            target = torch.empty_like(state[f"sorted.{name}"]).scatter_(0, order_of(theta), state[f"sorted.{name}"])
            gradient.add_(theta - target.view_as(theta), alpha=self.strength)


def order_of(theta: Tensor) -> Tensor:
    """The places of the entries from the smallest to the largest."""
    flat = theta.flatten()
    if flat.is_cpu and flat.dtype is torch.float32:
        # As whole numbers in the same order, for which torch has a radix sort: 1.2 against 30 ms for 100,000.
        bits = flat.view(torch.int32)
        flat = torch.where(bits < 0, torch.iinfo(torch.int32).min - bits, bits)
    return flat.argsort(stable=True)
