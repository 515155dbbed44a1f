"""Probe gradients: what metrics that read ``.grad`` are shown in the laboratory, the gradient of the loss on the probe.

What training left there would not do: no checkpoint holds it, and captured steps leave none. The gradient here is that
of the mean loss at the weights of now in evaluation mode, without what a method adds or clipping takes, so a run that
goes on from a checkpoint has the same.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn

from supple.learner import Batch
from supple.metrics.base import Metric, measure
from supple.metrics.observe import Observation, undisturbed
from supple_lab.runs.step import Trainee

BATCH_SIZE = 256  # as the observation's: of a forward with gradients no more need fit the memory than of a step's


def measure_on_probe(
    metrics: Sequence[Metric], observation: Observation, *, trainee: Trainee, batches: Iterable[Batch]
) -> dict[str, float]:
    """The metrics' numbers; those that read gradients are shown the probe's. The batches are read for these alone."""
    if not any(metric.reads_gradients for metric in metrics):
        return measure(metrics, observation)
    parameters = [p for p in trainee.learner.model.parameters() if p.requires_grad]
    with shown(parameters, probe_gradients(trainee, parameters, batches)):
        return measure(metrics, observation)


def probe_gradients(trainee: Trainee, parameters: Sequence[nn.Parameter], batches: Iterable[Batch]) -> list[Tensor]:
    """Of the mean loss over all batches; the model, its modes and ``.grad`` and all random streams stay as they are."""
    learner, num_examples = trainee.learner, 0
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    with undisturbed(learner.model), torch.enable_grad():
        for batch in batches:
            with trainee.numerics.forward():
                loss = learner.loss(batch)
            gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
            torch._foreach_add_(sums, gradients, alpha=len(batch[1]))
            num_examples += len(batch[1])
    torch._foreach_div_(sums, num_examples)
    return sums


@contextlib.contextmanager
def shown(parameters: Sequence[nn.Parameter], gradients: Sequence[Tensor]) -> Iterator[None]:
    """While open, these are the parameters' ``.grad``; afterwards the very tensors of before, which graphs may own."""
    kept = [parameter.grad for parameter in parameters]
    try:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        yield
    finally:
        for parameter, gradient_before in zip(parameters, kept, strict=True):
            parameter.grad = gradient_before
