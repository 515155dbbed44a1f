"""Metrics of an update: what it changes elsewhere (churn), and how much of its own sample's loss it removes.

In your own loop, pass `churn` and `sample_plasticity` what you measured before and after an update. The metrics make
the experiment: copies of the network take one step of the optimizer, in evaluation mode and without any method.
"""

import copy
import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from supple.metrics.base import Metric, at_least_one
from supple.metrics.observe import Observation, undisturbed
from supple.unchanged import twin_of


@dataclass(frozen=True, kw_only=True)
class Churn(Metric):
    """``churn`` and ``churn_decisions``, on the task's other samples, of an update on its first ``batch_size``."""

    name = "churn"
    watched = False
    needs_task = True
    batch_size: int = 64
    num_held_out: int = 256

    def __post_init__(self) -> None:
        at_least_one(self, "batch_size", "num_held_out")

    def measure(self, observation: Observation) -> dict[str, float]:
        task, model = observation.task, observation.model
        if task is None or task.optimizer is None or len(task.inputs) <= self.batch_size:
            return {}
        held_out = task.inputs[self.batch_size :][: self.num_held_out]
        first = slice(self.batch_size)
        updated = after_update(model, task.optimizer, task.inputs[first], task.targets[first], loss=task.loss)
        with undisturbed(model), undisturbed(updated):
            return churn(model(held_out), updated(held_out))


def churn(before_NC: Tensor, after_NC: Tensor) -> dict[str, float]:
    """Return how outputs on held-out inputs moved (Tang et al. 2025), from those before and after an update.

    ``churn`` is the mean squared difference, ``churn_decisions`` the share of inputs whose largest output is another.
    """
    moved = (after_NC.double() - before_NC.double()).square().mean()
    changed = (after_NC.argmax(-1) != before_NC.argmax(-1)).double().mean()
    return {"churn": moved.item(), "churn_decisions": changed.item() if moved.isfinite() else torch.nan}


@dataclass(frozen=True, kw_only=True)
class SamplePlasticity(Metric):
    """``sample_plasticity``: the mean over ``num_updates`` single updates, each of another copy on another batch."""

    name = "sample_plasticity"
    watched = False
    needs_task = True
    batch_size: int = 1  # Elsayed & Mahmood 2024 learn online
    num_updates: int = 32

    def __post_init__(self) -> None:
        at_least_one(self, "batch_size", "num_updates")

    def measure(self, observation: Observation) -> dict[str, float]:
        task, model = observation.task, observation.model
        if task is None or task.optimizer is None:
            return {}
        batches = zip(task.inputs.split(self.batch_size), task.targets.split(self.batch_size), strict=True)
        before, after = [], []
        for inputs, targets in itertools.islice(batches, self.num_updates):
            updated = after_update(model, task.optimizer, inputs, targets, loss=task.loss)
            with undisturbed(model), undisturbed(updated):
                before.append(task.loss(model(inputs), targets))
                after.append(task.loss(updated(inputs), targets))
        return {"sample_plasticity": sample_plasticity(torch.stack(before), torch.stack(after))}


def sample_plasticity(before_N: Tensor, after_N: Tensor) -> float:
    """Return the mean of 1 - after / before, kept in [0, 1], of losses before and after an update on their samples."""
    removed_N = 1 - after_N.double() / before_N.double().clamp(min=1e-8)
    return removed_N.clamp(0.0, 1.0).mean().item()


def after_update(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    inputs: Tensor,
    targets: Tensor,
    *,
    loss: Callable[[Tensor, Tensor], Tensor],
) -> nn.Module:
    """Return a copy of the model, in evaluation mode, after one step of a copy of its optimizer."""
    memo: dict[int, object] = {}
    model, optimizer = twin_of(model, memo), copy.deepcopy(optimizer, memo)
    with undisturbed(model), torch.enable_grad():
        loss(model(inputs), targets).backward()  # a copy has no gradients yet
        optimizer.step()
    return model
