"""Head reset (Nikishin et al. 2022): the last layers start over, the others go on."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn

from supple.learner import Batch, Learner, forget_
from supple.methods.base import Method, State, check_period
from supple.methods.matrices import biases, matrices
from supple.methods.renewal import draw


@dataclass(frozen=True, kw_only=True)
class HeadReset(Method):
    """Gives the ``layers`` last linear or convolutional layers fresh weights, and the optimizer forgets them.

    Fresh weights and biases are drawn from the layer's initial ones. All else stays, moments included. Last are the
    layers that the model registers last.
    """

    name = "head_reset"
    layers: int = 1
    every: int | None = None  # optimizer steps; None: between stages

    def __post_init__(self) -> None:
        if self.layers < 1:
            raise ValueError(f"HeadReset.layers is how many layers start over, at least 1; got {self.layers}.")
        check_period(self.every, "HeadReset.every")

    def init(self, learner: Learner) -> State:
        if self.layers > (found := len(matrices(learner))):
            raise ValueError(f"HeadReset.layers is {self.layers}, and this network has {found} trained layers.")
        return {}

    def head(self, learner: Learner) -> dict[str, nn.Parameter]:
        """The parameters that start over, by name."""
        last = matrices(learner)[-self.layers :]
        own = learner.own_parameters()
        return {matrix.name: own[matrix.name] for matrix in last} | biases(learner, last)

    def reach(self, learner: Learner) -> tuple[list[str], list[str]]:
        return list(self.head(learner)), []

    @torch.no_grad()
    def begin_stage(self, learner: Learner, state: State, data: Iterable[Batch], stage: int) -> None:
        head = self.head(learner)
        for parameter in head.values():
            parameter.copy_(draw(learner, parameter, len(parameter)))
        forget_(learner.optimizer, head.values())
