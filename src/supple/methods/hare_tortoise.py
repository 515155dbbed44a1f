"""Hare & Tortoise (Lee et al. 2024): a fast network trains, a slow one follows, and now and then replaces it."""

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from supple.learner import Learner
from supple.methods.base import Method, State


@dataclass(frozen=True, kw_only=True)
class HareTortoise(Method):
    """After each step tortoise <- momentum * tortoise + (1 - momentum) * hare; every ``every`` steps hare <- tortoise.

    Both hold for parameters and buffers (whole numbers are copied); the optimizer's state stays. The tortoise is the
    network to evaluate (``evaluation``), and lives on through all stages. ``every`` and the stages should last several
    times 1 / (1 - momentum) steps.
    """

    name = "hare_tortoise"
    counts_steps = True
    momentum: float = 0.999  # the authors'
    every: int = 2000  # optimizer steps; the authors' 10 epochs

    def __post_init__(self) -> None:
        if not 0.0 <= self.momentum <= 1.0:
            raise ValueError(f"HareTortoise.momentum is what the tortoise keeps, in [0, 1]; got {self.momentum}.")

    def init(self, learner: Learner) -> State:
        slow = {f"slow.{name}": copy_of(tensor) for name, tensor in tensors_of(learner)}
        return {"steps": torch.zeros((), dtype=torch.int64, device=learner.device), **slow}

    @torch.no_grad()
    def after_step(self, learner: Learner, state: State) -> None:
        state["steps"] += 1
        is_due = state["steps"] % self.every == 0
        for name, fast in tensors_of(learner):
            if f"slow.{name}" not in state:  # it was frozen until now
                state[f"slow.{name}"] = copy_of(fast)
            slow = state[f"slow.{name}"]
            if fast.is_floating_point():  # what is equal stays: between infinities there is no mean
                slow.copy_(torch.where(slow == fast, slow, slow.lerp(fast.to(slow.dtype), 1.0 - self.momentum)))
            else:
                slow.copy_(fast)
            fast.copy_(torch.where(is_due, slow.to(fast.dtype), fast))  # no storage is shared

    @contextlib.contextmanager
    def evaluation(self, learner: Learner, state: State) -> Iterator[None]:
        """While open, the model holds the tortoise."""
        own = [(fast, state.get(f"slow.{name}")) for name, fast in tensors_of(learner)]
        pairs = [(fast, slow, fast.detach().clone()) for fast, slow in own if slow is not None]
        with torch.no_grad():
            for fast, slow, _ in pairs:
                fast.copy_(slow)
        try:
            yield
        finally:
            with torch.no_grad():
                for fast, _, kept in pairs:
                    fast.copy_(kept)


def copy_of(tensor: Tensor) -> Tensor:
    """A tortoise's own copy, in float32 at least: it moves by a thousandth a step."""
    wide = tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
    return wide.detach().clone()


def tensors_of(learner: Learner) -> Iterator[tuple[str, Tensor]]:
    """Names and tensors of what the hare is made of: trained parameters, and all buffers."""
    return itertools.chain(learner.own_parameters().items(), learner.model.named_buffers())
