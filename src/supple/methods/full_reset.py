"""Full Reset: every stage starts from the initial network with a fresh optimizer (what the others are measured by)."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from supple.learner import Batch, Learner, forget_
from supple.methods.base import Method, State


@dataclass(frozen=True, kw_only=True)
class FullReset(Method):
    """Puts back parameters and buffers, bit for bit the same each time, and has the optimizer forget them.

    Parameters that are frozen or that another optimizer trains stay, and so do the buffers of modules that have no
    other parameters.

    The network is the vanilla one, or has the activation of the method that ``built_with`` names.
    """

    name = "full_reset"
    built_with: Method | None = field(default=None, metadata={"later": True})
    every: int | None = field(default=None, metadata={"later": True})  # optimizer steps; None: between stages

    def activation(self) -> nn.Module:
        return nn.ReLU() if self.built_with is None else self.built_with.activation()

    @torch.no_grad()
    def begin_stage(self, learner: Learner, state: State, data: Iterable[Batch], stage: int) -> None:
        own = learner.own_parameters()
        for name, tensor in itertools.chain(own.items(), buffers_beside(own, learner.model)):
            if name in learner.initial:  # a buffer that came later has no initial value
                tensor.copy_(learner.initial[name])
        forget_(learner.optimizer, own.values())  # it may train others besides, which go on


def buffers_beside(own: dict[str, nn.Parameter], model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Names and buffers of all modules but those whose parameters are all frozen, or trained by another optimizer."""
    for prefix, module in model.named_modules():
        names = [name for name, _ in module.named_parameters(prefix, recurse=False)]
        if not names or any(name in own for name in names):
            yield from module.named_buffers(prefix, recurse=False)
