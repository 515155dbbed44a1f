"""Gradient score of units (Liu et al. 2025): how large their gradients are beside those of their layer."""

import torch
from torch import Tensor

from supple.learner import Learner
from supple.methods.activity import mean_magnitude
from supple.methods.base import State
from supple.units import UnitLayer, out_dim
from supple.units.surgery import producers_of

SILENT = 1e-12  # a layer whose mean gradient is below this was no part of the loss


def first_scores(learner: Learner, layer: UnitLayer) -> State:
    """1 for every unit of a layer: what is known before the first step, and what the step to come will make of it."""
    score_U = torch.ones(layer.num_units, device=learner.device)
    return {f"score.{layer.name}": score_U, f"next.score.{layer.name}": score_U.clone()}


def commit_scores_(state: State) -> None:
    """The step was made: what was learned of the raw gradients before it counts."""
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
    """Sizes over their mean; 1 for all if that is no number above 0."""
    mean = size_U.mean()
    is_there = (mean >= SILENT) & mean.isfinite()
    return torch.where(is_there, size_U / torch.where(is_there, mean, 1.0), torch.ones_like(size_U))
