"""Scenario: a sequence of stages, each a training set, its epochs and batch size."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from supple_lab.data.base import Examples, Splits


@dataclass(frozen=True)
class Stage:
    """What a network trains on before the next change."""

    train: Examples
    epochs: int
    batch_size: int


class Scenario(ABC):
    """A frozen dataclass in every subclass. Stage k follows from (seed, k) alone, so that a run can resume at any k."""

    name: ClassVar[str]
    fresh_optimizer: ClassVar[bool]  # whether each stage starts with a new optimizer
    num_stages: int

    @abstractmethod
    def stage(self, index: int, splits: Splits, seed: int) -> Stage:
        """The stage at the index, counted from 0."""
