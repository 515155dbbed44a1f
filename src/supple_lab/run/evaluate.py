"""Evaluation: a network's scores, and the gradients that metrics are shown.

Metrics that read ``.grad`` see the gradient of the mean loss on the probe, in evaluation mode, without what a method
adds or clipping takes. What training left there would not do: no checkpoint holds it, and captured steps leave none.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.learner import Batch
from supple.metrics.base import Metric, measure
from supple.metrics.observe import Observation, undisturbed
from supple_lab.data.base import Examples
from supple_lab.precision import Numerics
from supple_lab.run.capture import Graph, Pool
from supple_lab.run.step import TrainState, weights_of

PROBE_BATCH_SIZE = 256  # as the observation's: of a forward with gradients no more need fit the memory than of a step's


def measure_on_probe(
    metrics: Sequence[Metric], observation: Observation, *, training: TrainState, batches: Iterable[Batch]
) -> dict[str, float]:
    """The metrics' numbers; those that read gradients are shown the probe's. The batches are read for these alone."""
    if not any(metric.reads_gradients for metric in metrics):
        return measure(metrics, observation)
    parameters = [p for p in training.learner.model.parameters() if p.requires_grad]
    with with_gradients(parameters, probe_gradients(training, parameters, batches)):
        return measure(metrics, observation)


def probe_gradients(training: TrainState, parameters: Sequence[nn.Parameter], batches: Iterable[Batch]) -> list[Tensor]:
    """Of the mean loss over all batches; the model, its modes and ``.grad`` and all random streams stay as they are."""
    learner, num_examples = training.learner, 0
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    with undisturbed(learner.model), torch.enable_grad():
        for batch in batches:
            with training.numerics.forward():
                loss = learner.loss(batch)
            gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
            torch._foreach_add_(sums, gradients, alpha=len(batch[1]))
            num_examples += len(batch[1])
    torch._foreach_div_(sums, num_examples)
    return sums


@contextlib.contextmanager
def with_gradients(parameters: Sequence[nn.Parameter], gradients: Sequence[Tensor]) -> Iterator[None]:
    """While open, these are the parameters' ``.grad``; afterwards the very tensors of before, which graphs may own."""
    kept = [parameter.grad for parameter in parameters]
    try:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        yield
    finally:
        for parameter, gradient_before in zip(parameters, kept, strict=True):
            parameter.grad = gradient_before


BATCH_SIZE = 1024  # large enough to keep a GPU busy, small enough for the widest activations of the paper's networks
NUM_EAGER = 2  # passes over a set before it is worth a graph, whose making takes as long as a few of them


@dataclass
class KnownSet:
    """A set of examples under a name, how often it was scored, and the captured pass over it, if there is one."""

    examples: Examples
    num_passes: int = 0
    graph: Graph | None = None


class Evaluation:
    """Scores one network; on a GPU a pass over a set that is scored again and again is one CUDA graph."""

    def __init__(self, model: nn.Module, numerics: Numerics) -> None:
        self.model = model
        self.numerics = numerics
        self.sums = torch.zeros(2, dtype=torch.float64, device=numerics.device)
        self.known: dict[str, KnownSet] = {}
        self.pool: Pool | None = None  # memory of all passes, which follow each other
        self.why_eager: str | None = None

    def scores(self, sets: Mapping[str, Examples]) -> dict[str, float]:
        """Accuracy and loss on each set, by its name."""
        values: dict[str, float] = {}
        if not sets:
            return values  # without changing the network's mode to and fro
        was_training = self.model.training
        self.model.eval()
        for name, examples in sets.items():
            self.score(name, examples)
            values[f"{name}_accuracy"], values[f"{name}_loss"] = (self.sums / examples.num_labels).tolist()
        self.model.train(was_training)
        return values

    def score(self, name: str, examples: Examples) -> None:
        """One pass, into the sums."""
        if name not in self.known or self.known[name].examples is not examples:
            self.known[name] = KnownSet(examples)
        known, pass_over = self.known[name], partial(self.pass_over, examples)
        if known.num_passes == NUM_EAGER and self.sums.is_cuda and self.why_eager is None:
            known.graph = Graph(pass_over, touches=partial(weights_of, self.model), pool=self.pool)
        known.num_passes += 1
        if known.graph is None or self.why_eager is not None:
            pass_over()
        else:
            known.graph.recheck_addresses()
            known.graph()
            self.why_eager, self.pool = known.graph.why_eager, known.graph.pool

    def forget(self, name: str) -> None:
        """Let go of a set that will not be scored again: it may be a gigabyte."""
        self.known.pop(name, None)

    @torch.no_grad()
    def pass_over(self, examples: Examples) -> None:
        """Sum up what is right and what is lost, batch by batch."""
        self.sums.zero_()
        for indices in torch.arange(len(examples), device=self.sums.device).split(BATCH_SIZE):
            inputs, labels = examples.batch(indices)
            with self.numerics.forward():
                logits = self.model(inputs)
            num_correct = (logits.argmax(dim=1) == labels).sum()
            loss = F.cross_entropy(logits.float(), labels, reduction="sum")
            self.sums.add_(torch.stack((num_correct.double(), loss.double())))
