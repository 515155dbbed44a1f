"""Streaming EWC, S-EWC (Elsayed & Mahmood 2024): hold a weight near its running mean, by its running Fisher value."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from supple.learner import Learner
from supple.methods.base import Method, State, decay_rate, non_negative


@dataclass(frozen=True, kw_only=True)
class SEWC(Method):
    """Adds strength * f * (theta - a) to the gradient g, with a the running mean of theta and f that of g^2.

    Both means are corrected for their start. Step t moves them by (1 - decay) / (1 - decay^t) of the way, which is the
    same as dividing a plain moving average by 1 - decay^t, and makes the first step's penalty exactly 0. g is the
    gradient of the loss alone, of the whole batch: its square underestimates the Fisher information of single samples
    by about the batch size, which is why the paper's best strengths span 0.01 to 100.
    """

    name = "s_ewc"
    strength: float = 1.0  # lambda; the paper's best for ResNet-18 in continual learning with limited access
    mean_decay: float = 0.999  # of a; both rates as in the authors' code
    fisher_decay: float = 0.999  # of f

    def __post_init__(self) -> None:
        non_negative(self.strength, "SEWC.strength is the weight of the penalty (lambda)")
        decay_rate(self.mean_decay, "SEWC.mean_decay is the decay of the mean of weights")
        decay_rate(self.fisher_decay, "SEWC.fisher_decay is the decay of the mean of squared gradients")

    def init(self, learner: Learner) -> State:
        named = {name: parameter.detach() for name, parameter in learner.model.named_parameters()}
        means = {f"mean.{name}": theta.clone() for name, theta in named.items()}
        fishers = {f"fisher.{name}": torch.zeros_like(theta) for name, theta in named.items()}
        return {"step": torch.zeros((), dtype=torch.int64, device=learner.device), **means, **fishers}

    @torch.no_grad()
    def after_backward(self, learner: Learner, state: State) -> None:
        state["step"].add_(1)
        names, thetas, gradients = learner.trained()
        means, fishers = ([state[f"{kind}.{name}"] for name in names] for kind in ("mean", "fisher"))
        move_(means, thetas, share(state["step"], self.mean_decay))
        move_(fishers, torch._foreach_mul(gradients, gradients), share(state["step"], self.fisher_decay))
        torch._foreach_addcmul_(gradients, fishers, torch._foreach_sub(thetas, means), value=self.strength)


def share(step: Tensor, decay: float) -> Tensor:
    """How far step t moves a running mean that is corrected for its start: (1 - decay) / (1 - decay^t)."""
    # Both by expm1: 1 - decay^t would lose half of its digits at t = 2.
    log = math.log(decay)
    return math.expm1(log) / torch.expm1(step.double() * log)


def move_(means: list[Tensor], targets: Sequence[Tensor], share: Tensor) -> None:
    """Move each mean by a share of the way to its target."""
    torch._foreach_lerp_(means, list(targets), [share.to(mean.dtype) for mean in means])
