"""Gradient score of units (Liu et al. 2025): how large their gradients are beside those of their layer."""

import math
from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from supple.learner import Learner
from supple.methods.activity import mean_magnitude
from supple.methods.base import State
from supple.methods.renewal import Renewing, take_own_steps_
from supple.units import UnitLayer, out_dim
from supple.units.surgery import producers_of

SILENT = 1e-12  # a layer whose mean gradient is below this was no part of the loss


class Scored(Renewing):
    """A method that renews units by their gradient scores, read before each step, which count once it was made."""

    follows = ("after_backward", "after_step")
    first_score: ClassVar[float] = 1.0  # before any gradient

    def first_record(self, layer: UnitLayer, device: torch.device) -> State:
        score_U = torch.full((layer.num_units,), self.first_score, dtype=torch.float32, device=device)
        return {f"score.{layer.name}": score_U, f"next.score.{layer.name}": score_U.clone()}

    @abstractmethod
    def next_score(self, learner: Learner, layer: UnitLayer, score_U: Tensor) -> Tensor:
        """The scores after this step, from those before it."""

    @torch.no_grad()
    def after_backward(self, learner: Learner, state: State) -> None:
        for layer in self.layers(learner):  # at each step: at a stage's end a loop may have no gradients any more
            if f"score.{layer.name}" not in state:  # its weights were frozen until now
                state |= self.first_record(layer, learner.device)
            score_U = state[f"score.{layer.name}"]
            state[f"next.score.{layer.name}"].copy_(self.next_score(learner, layer, score_U))

    @torch.no_grad()
    def after_step(self, learner: Learner, state: State) -> None:
        take_own_steps_(learner, state, getattr(self, "moments", "keep"))
        for key in [key for key in state if key.startswith("score.")]:
            state[key].copy_(state[f"next.{key}"])


def gradient_score(layer: UnitLayer) -> Tensor | None:
    """mean |gradient| of each unit's incoming weights over the layer's mean; None without any."""
    rows = [
        producer.weight.grad.abs().movedim(out_dim(producer), 0).flatten(1)
        for producer in producers_of(layer)
        if producer.weight.grad is not None
    ]
    if not rows:
        return None
    return over_mean((rows[0] if len(rows) == 1 else torch.cat(rows, dim=1)).mean(dim=1, dtype=torch.float32))


def activation_score(learner: Learner, layer: UnitLayer) -> Tensor | None:
    """The same of the gradients at the activation: mean |dL/dh| over examples and space, as the paper's text has it."""
    gradient = learner.gradients.pop(layer.name, None)
    if gradient is None:
        return None
    size_U = mean_magnitude(layer, gradient)
    learner.mean_over_ranks_(size_U)
    return over_mean(size_U)


def over_mean(size_U: Tensor) -> Tensor:
    """Sizes over their mean; infinity for all if that is no number above 0: then none is small beside others."""
    mean = size_U.mean()
    is_there = (mean >= SILENT) & mean.isfinite()
    return torch.where(is_there, size_U / torch.where(is_there, mean, 1.0), torch.full_like(size_U, math.inf))
