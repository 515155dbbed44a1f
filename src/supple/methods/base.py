"""Method: what may be done against plasticity loss, and when (hooks of a training loop, all no-ops by default)."""

import math
from abc import ABC
from collections.abc import Iterable
from typing import ClassVar

from torch import Tensor, nn

from supple.batch import Batch
from supple.fields import Checked
from supple.learner import Learner

State = dict[str, Tensor]


class Method(Checked, ABC):
    """A frozen dataclass in every subclass; its fields are its hyperparameters, its memory is the ``state`` dict.

    A method is stateless, so one piece of code checkpoints, resumes and moves them all. The two hooks inside a step
    work on tensors only (no ``.item()``, no branch on a value), so that a whole step can be captured in a CUDA graph.
    """

    name: ClassVar[str]

    def activation(self) -> nn.Module:
        """What the network is built with, or converted to; called once per activation site."""
        return nn.ReLU()

    def init(self, learner: Learner) -> State:
        """What the method must remember: tensors, updated in place."""
        return {}

    def after_backward(self, learner: Learner, state: State) -> None:
        """May edit gradients, before clipping."""

    def after_step(self, learner: Learner, state: State) -> None:
        """After each optimizer step."""

    def end_stage(self, learner: Learner, state: State, data: Iterable[Batch]) -> None:
        """With the data of the stage just finished; not after the last stage."""

    def begin_stage(self, learner: Learner, state: State, data: Iterable[Batch], stage: int) -> None:
        """Before stage >= 1, with its data, after the optimizer was started anew (where it is)."""


def non_negative(value: float, what: str) -> float:
    """The value if it is a finite number of at least 0, or an error that says what it stands for."""
    if not 0.0 <= value < math.inf:
        raise ValueError(f"{what}, a finite number of at least 0; got {value}.")
    return value


def decay_rate(value: float, what: str) -> float:
    """The value if it can be the decay of a running mean, or an error that says what it stands for."""
    if not 0.0 < value < 1.0:
        raise ValueError(f"{what}, between 0 and 1 and neither of them; got {value}.")
    return value
