"""UPGD (Elsayed & Mahmood 2024): useful weights are protected from the gradient, and idle ones get noise."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from supple.learner import Learner
from supple.methods.base import Method, State, non_negative

SMALLEST = 1e-12  # of the utility that others are divided by


@dataclass(frozen=True, kw_only=True)
class UPGD(Method):
    """Gates gradient and noise by 1 - s, s = sigmoid(utility / its maximum over all weights).

    A weight's utility is the running mean of -gradient * weight, corrected for its start. With ``protecting`` the
    gradient becomes (g + noise) * (1 - s) + weight_decay * w, else g + noise * (1 - s) + weight_decay * w, and plain
    SGD makes the authors' step of it. ``scope`` "local" divides by the length of a weight's row instead.
    ``adaptive`` is for Adam (AdaUPGD): it sees the raw gradient, and its step is gated: 2 (1 - s) times it, less
    2 lr (1 - s) noise and lr * weight_decay * w.

    ``reference``: as in the authors' code the maximum is that of utilities without the correction, which freezes
    useful weights for the first 1 / (1 - beta) steps. The feature-wise form is not here.
    """

    name = "upgd"
    beta: float = 0.999
    sigma: float = 0.001
    weight_decay: float = 0.001  # all three as in the authors' readme
    protecting: bool = True
    scope: Literal["global", "local"] = "global"
    adaptive: bool = False
    reference: bool = False

    def __post_init__(self) -> None:
        if not 0.0 <= self.beta < 1.0:
            raise ValueError(f"UPGD.beta is the decay of the running utility, in [0, 1); got {self.beta}.")
        non_negative(self.sigma, "UPGD.sigma is the standard deviation of the noise")
        non_negative(self.weight_decay, "UPGD.weight_decay is the weight of the decay")

    def init(self, learner: Learner) -> State:
        steps = torch.zeros((), dtype=torch.float64, device=learner.device)
        state: State = {"steps": steps, "next.steps": steps.clone()}
        for name, parameter in learner.model.named_parameters():
            state |= self.first_record(name, parameter.detach())
        return state

    def first_record(self, name: str, theta: Tensor) -> State:
        """What is remembered of a parameter before its first step."""
        wide = torch.zeros_like(theta, dtype=torch.promote_types(theta.dtype, torch.float32))  # a slow mean
        record = {f"utility.{name}": wide, f"next.utility.{name}": wide.clone()}
        if self.adaptive:
            record |= {f"next.old.{name}": theta.clone(), f"next.noise.{name}": torch.zeros_like(theta)}
        return record

    @torch.no_grad()
    def after_backward(self, learner: Learner, state: State) -> None:
        trained = list(zip(*learner.trained(), strict=True))
        if not trained:
            return
        state["next.steps"].copy_(state["steps"] + 1)
        for name, theta, gradient in trained:
            if f"utility.{name}" not in state:  # it came later
                state |= self.first_record(name, theta.detach())
            utility = state[f"utility.{name}"]
            gain = (-gradient * theta).to(utility.dtype)
            state[f"next.utility.{name}"].copy_(utility.lerp(gain, 1.0 - self.beta))
        free = self.free_shares(state, [name for name, _, _ in trained])
        for name, theta, gradient in trained:
            free[name] = free[name].to(theta.dtype)
            noise = torch.empty_like(theta).normal_(generator=learner.generator).mul_(self.sigma)
            if self.adaptive:
                state[f"next.old.{name}"].copy_(theta)
                state[f"next.noise.{name}"].copy_(noise * free[name])
                continue
            edited = (gradient + noise) * free[name] if self.protecting else gradient + noise * free[name]
            gradient.copy_(edited.add_(theta, alpha=self.weight_decay))

    @torch.no_grad()
    def after_step(self, learner: Learner, state: State) -> None:
        names = learner.trained()[0]
        if not names:
            return
        state["steps"].copy_(state["next.steps"])
        if self.adaptive:
            free = self.free_shares(state, names)
        for group in learner.optimizer.param_groups if self.adaptive else ():
            for name, theta in learner.own_parameters().items():
                if name in names and any(theta is one for one in group["params"]):
                    old = state[f"next.old.{name}"]
                    step = 2.0 * (theta - old) * (free[name].to(theta.dtype) if self.protecting else 1.0)
                    noise = 2.0 * group["lr"] * state[f"next.noise.{name}"]
                    theta.copy_(old * (1.0 - group["lr"] * self.weight_decay) + step - noise)
        for name in names:
            state[f"utility.{name}"].copy_(state[f"next.utility.{name}"])

    def free_shares(self, state: State, names: list[str]) -> dict[str, Tensor]:
        """1 - s of each parameter."""
        utilities = {name: state[f"next.utility.{name}"] for name in names}
        correction = 1.0 - self.beta ** state["next.steps"]
        corrected = {name: utility / correction.to(utility.dtype) for name, utility in utilities.items()}
        if self.scope == "local":
            lengths = {name: u.norm(dim=-1, keepdim=True).clamp(min=SMALLEST) for name, u in corrected.items()}
            return {name: torch.sigmoid(-u / lengths[name]) for name, u in corrected.items()}
        bounding = utilities if self.reference else corrected
        largest = torch.stack([u.amax().double() for u in bounding.values()]).amax().clamp(min=SMALLEST)
        return {name: torch.sigmoid(-u / largest.to(u.dtype)) for name, u in corrected.items()}
