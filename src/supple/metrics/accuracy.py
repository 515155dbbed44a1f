"""Accuracy in training mode: what a network with masks gets right while it draws them, before anything is averaged."""

from dataclasses import dataclass

import torch

from supple.metrics.base import Metric
from supple.metrics.observe import Observation, undisturbed
from supple.random import mask_stream
from supple.unchanged import twin_of


@dataclass(frozen=True, kw_only=True)
class TrainingAccuracy(Metric):
    """``training_accuracy``: share of the task's targets that a copy of the network in training mode gets right.

    Masks have a stream of their own, which starts again at each measurement. Batch norms use the statistics of batches.
    """

    name = "training_accuracy"
    watched = False
    needs_task = True
    batch_size: int = 256

    def measure(self, observation: Observation) -> dict[str, float]:
        task = observation.task
        if task is None or task.targets.is_floating_point():
            return {}
        model = twin_of(observation.model)
        generator = torch.Generator(task.inputs.device).manual_seed(0)
        with undisturbed(model), mask_stream(generator):
            model.train()
            number = -(-len(task.targets) // self.batch_size)  # batches of about one size: norms refuse one sample
            batches = zip(task.inputs.tensor_split(number), task.targets.tensor_split(number), strict=True)
            correct = [(model(inputs).argmax(-1) == targets).sum() for inputs, targets in batches]
        return {"training_accuracy": torch.stack(correct).sum().item() / task.targets.numel()}
