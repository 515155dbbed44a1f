"""One training step, method included: forward, loss, backward, gradient edits, clipping, the optimizer."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.learner import Learner
from supple.methods.base import Method, State
from supple_lab.data.base import Examples
from supple_lab.runs.precision import Numerics


@dataclass(frozen=True, eq=False)
class Trainee:
    """All that a step reads and writes, besides the examples. Nothing in it is replaced while a stage goes on."""

    learner: Learner
    method: Method
    state: State
    numerics: Numerics
    clip_norm: float | None
    masks: torch.Generator  # what the activations draw from
    sums: Tensor  # (sum of losses, number correct), added to by every step


def training_step(trainee: Trainee, examples: Examples, indices: Tensor) -> None:
    """Train on the examples at the indices, each scored by the very forward that trains on it."""
    inputs, labels = examples.batch(indices)
    with trainee.numerics.forward():
        logits = trainee.learner.model(inputs)
        loss = F.cross_entropy(logits, labels)
    descend_(trainee, loss)
    with torch.no_grad():  # straight into the sums: on a GPU every further operation is a further kernel
        trainee.sums[0].add_(loss, alpha=len(labels))
        trainee.sums[1].add_((logits.argmax(dim=1) == labels).sum())


def descend_(trainee: Trainee, loss: Tensor) -> None:
    """From the loss to the updated weights: backward, gradient edits, clipping, the optimizer."""
    learner, optimizer = trainee.learner, trainee.learner.optimizer
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    trainee.method.after_backward(learner, trainee.state)
    if trainee.clip_norm is not None:
        nn.utils.clip_grad_norm_(learner.model.parameters(), trainee.clip_norm)
    optimizer.step()
    trainee.method.after_step(learner, trainee.state)


class EagerSteps:
    """Steps executed one by one, operator by operator."""

    obstacle: str | None = None  # to capturing them: nobody tried

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee

    def begin_stage(self, examples: Examples) -> None:
        """Train on these examples from now on."""
        self.examples = examples

    def take(self, ahead: tuple[Tensor, ...]) -> int:
        """The first of the steps ahead, each told by which examples it trains on; how many that was."""
        training_step(self.trainee, self.examples, ahead[0])
        return 1
