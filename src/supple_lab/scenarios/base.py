"""Scenario: a sequence of stages, each a training set, its tests, its epochs and batch size."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from supple.fields import Checked
from supple_lab.data.base import Examples, Facts, Splits
from supple_lab.errors import UserError, at_least

DECAY = 0.1  # what the learning rate is multiplied by at each of a stage's milestones


class Unsuitable(UserError, ValueError):
    """The parts of a run do not go together; the message says why and what would."""


@dataclass(frozen=True)
class Size:
    num_images: int
    epochs: int
    batch_size: int

    @property
    def steps_per_epoch(self) -> int:
        """The short last batch is a step, too."""
        return -(-self.num_images // self.batch_size)

    @property
    def num_steps(self) -> int:
        return self.epochs * self.steps_per_epoch


@dataclass(frozen=True)
class Stage:
    """What a network trains on before the next change, and what it is tested on at its end and after every epoch."""

    train: Examples
    epochs: int
    batch_size: int
    tests: Mapping[str, Examples] = field(default_factory=dict)
    milestones: tuple[int, ...] = ()  # epochs before which the learning rate falls
    num_scored: int | None = None  # of the first training images, at the end of the stage; None: all
    decay: float = DECAY
    warm_up: int = 0  # epochs in which the learning rate rises
    num_classes: int | None = None  # outputs of later classes are masked; None: no output is
    tests_every_epoch: bool = True  # or at the end of the stage alone
    best_on: str | None = None  # the test whose best epoch's weights are put back at the end of the stage
    in_epoch: Callable[[int], Examples] | None = None  # the training set as an epoch sees it, if it is augmented

    def learning_rate_factor(self, epoch: int) -> float:
        """What the learning rate is multiplied by in an epoch, counted from 0."""
        risen = (epoch + 0.5) / self.warm_up if epoch < self.warm_up else 1.0  # the mean of a steady rise
        return risen * self.decay ** sum(epoch >= milestone for milestone in self.milestones)


class Scenario(Checked, ABC):
    """A frozen dataclass in every subclass. Stage k follows from (seed, k) alone, so that a run can resume at any k."""

    name: ClassVar[str]
    fresh_optimizer: ClassVar[bool] = False  # whether each stage starts with a new optimizer
    takes_text: ClassVar[bool] = False  # whether its stages mean something if the examples are windows of a text
    num_stages: int
    epochs: int  # of a stage
    batch_size: int
    num_images: int  # of a stage; if a scenario has none, all

    def __post_init__(self) -> None:  # a scenario that sizes its stages by itself may lack some of these
        counts = ("num_stages", "epochs", "batch_size", "num_images")
        at_least(1, self, *(name for name in counts if hasattr(self, name)))

    def check(self, facts: Facts) -> None:
        """Raise Unsuitable if the scenario cannot be made from such a dataset."""
        if (number := getattr(self, "num_images", 0)) > facts.num_train:
            name = type(self).__name__
            raise Unsuitable(f"{name}.num_images is {number}, but the dataset has {facts.num_train} training images.")

    def size(self, index: int, facts: Facts) -> Size:
        """How much work the stage at the index is, known without the data (exact if classes are of equal size)."""
        return Size(getattr(self, "num_images", facts.num_train), self.epochs, self.batch_size)

    @abstractmethod
    def stage(self, index: int, splits: Splits, seed: int) -> Stage:
        """The stage at the index, counted from 0."""
