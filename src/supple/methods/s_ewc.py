"""Streaming EWC, S-EWC (Elsayed & Mahmood 2024): hold a weight near its running mean, by its running Fisher value."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from supple.learner import Learner
from supple.methods.base import Method, State, decay_rate, non_negative

KINDS = ("mean", "fisher", "step")


@dataclass(frozen=True, kw_only=True)
class SEWC(Method):
    """Adds strength * f * (theta - a) to the gradient g, with a the running mean of theta and f that of g^2.

    Both means are corrected for their start. A parameter's step t, counted from its own first gradient, moves them by
    (1 - decay) / (1 - decay^t) of the way, which is the same as dividing a plain moving average by 1 - decay^t, and
    makes the first step's penalty exactly 0. g is the gradient of the loss alone, of the whole batch: its square
    underestimates the Fisher information of single samples by about the batch size, which is why the paper's best
    strengths span 0.01 to 100.
    """

    name = "s_ewc"
    follows = ("after_step",)
    strength: float = 1.0  # lambda; the paper's best for ResNet-18 in continual learning with limited access
    mean_decay: float = 0.999  # of a; both rates as in the authors' code
    fisher_decay: float = 0.999  # of f

    def __post_init__(self) -> None:
        non_negative(self.strength, "SEWC.strength is the weight of the penalty (lambda)")
        decay_rate(self.mean_decay, "SEWC.mean_decay is the decay of the mean of weights")
        decay_rate(self.fisher_decay, "SEWC.fisher_decay is the decay of the mean of squared gradients")

    def init(self, learner: Learner) -> State:
        state: State = {}
        for name, parameter in learner.model.named_parameters():
            state |= first_record(name, parameter.detach())
        return state

    @torch.no_grad()
    def after_backward(self, learner: Learner, state: State) -> None:
        names, thetas, gradients = learner.trained()
        if not names:
            return
        for name, theta in zip(names, thetas, strict=True):
            if f"step.{name}" not in state:  # it came later
                state |= first_record(name, theta.detach())
        torch._foreach_copy_(self.running(names, state, "next."), self.running(names, state))
        means, fishers, steps = (self.running(names, state, "next.", kind) for kind in KINDS)
        torch._foreach_add_(steps, 1)
        steps_P = torch.stack(steps)
        move_(means, thetas, shares(steps_P, self.mean_decay))
        move_(fishers, torch._foreach_mul(gradients, gradients), shares(steps_P, self.fisher_decay))
        torch._foreach_addcmul_(gradients, fishers, torch._foreach_sub(thetas, means), value=self.strength)

    @torch.no_grad()
    def after_step(self, learner: Learner, state: State) -> None:
        if names := learner.trained()[0]:  # a step that is skipped, as after an overflow, leaves no trace
            torch._foreach_copy_(self.running(names, state), self.running(names, state, "next."))

    def running(self, names: Sequence[str], state: State, prefix: str = "", *kinds: str) -> list[Tensor]:
        """Means, Fisher values and steps of the parameters, or those of one kind."""
        return [state[f"{prefix}{kind}.{name}"] for kind in kinds or KINDS for name in names]


def first_record(name: str, theta: Tensor) -> State:
    """What is remembered of a parameter before its first step, and what its next step would make of that."""
    step = theta.new_zeros((), dtype=torch.int64)
    own = {f"mean.{name}": theta.clone(), f"fisher.{name}": torch.zeros_like(theta), f"step.{name}": step}
    return own | {f"next.{key}": tensor.clone() for key, tensor in own.items()}


def shares(steps_P: Tensor, decay: float) -> Sequence[Tensor]:
    """How far step t moves a running mean that is corrected for its start: (1 - decay) / (1 - decay^t)."""
    # Both by expm1: 1 - decay^t would lose half of its digits at t = 2.
    log = math.log(decay)
    return (math.expm1(log) / torch.expm1(steps_P.double() * log)).unbind()


def move_(means: list[Tensor], targets: Sequence[Tensor], shares: Sequence[Tensor]) -> None:
    """Move each mean by its share of the way to its target."""
    cast = [share.to(mean.dtype) for mean, share in zip(means, shares, strict=True)]
    torch._foreach_lerp_(means, list(targets), cast)
