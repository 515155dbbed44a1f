"""Full Reset: every stage starts from the initial network with a fresh optimizer (what the others are measured by)."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import nn

from supple.batch import Batch
from supple.fresh_state import forget_
from supple.learner import Learner
from supple.methods.base import Method, State


@dataclass(frozen=True, kw_only=True)
class FullReset(Method):
    """Puts back parameters and buffers, bit for bit the same each time, and has the optimizer forget them.

    The network is the vanilla one, or has the activation of the method that ``built_with`` names.
    """

    name = "full_reset"
    built_with: Method | None = field(default=None, metadata={"later": True})

    def activation(self) -> nn.Module:
        return nn.ReLU() if self.built_with is None else self.built_with.activation()

    @torch.no_grad()
    def begin_stage(self, learner: Learner, state: State, data: Iterable[Batch], stage: int) -> None:
        for name, tensor in itertools.chain(learner.model.named_parameters(), learner.model.named_buffers()):
            if name in learner.initial:  # a buffer that came later has no initial value
                tensor.copy_(learner.initial[name])
        forget_(learner.optimizer, learner.model.parameters())  # it may train others besides, which go on
