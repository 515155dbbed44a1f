"""Continual full and limited (paper section 5.1.2): chunks of the training set arrive one after the other."""

from abc import abstractmethod
from dataclasses import dataclass

import torch

from supple_lab.data.base import Facts, Splits
from supple_lab.scenarios.base import Scenario, Size, Stage, Unsuitable
from supple_lab.streams import stream


@dataclass(frozen=True, kw_only=True)
class Arrival(Scenario):
    """Stage k trains on the chunks from the oldest kept to the k-th; tested on the whole test set.

    Chunks are cut at random, the same for all methods of a seed; their sizes differ by one at most.
    """

    fresh_optimizer = True
    num_stages: int = 10
    epochs: int = 100
    batch_size: int = 256

    @abstractmethod
    def oldest(self, index: int) -> int:
        """The first chunk that the stage at the index has, counted from 0."""

    def check(self, facts: Facts) -> None:
        if self.num_stages > facts.num_train:
            raise Unsuitable(
                f"{type(self).__name__}.num_stages is {self.num_stages}, but the dataset has {facts.num_train} "
                "training images to share."
            )

    def size(self, index: int, facts: Facts) -> Size:
        chosen = self.kept(index, facts.num_train)
        return Size(chosen.stop - chosen.start, self.epochs, self.batch_size)

    def stage(self, index: int, splits: Splits, seed: int) -> Stage:
        order = torch.randperm(len(splits.train), generator=stream(seed, "chunks"))
        chosen = order[self.kept(index, len(splits.train))]
        return Stage(splits.train.subset(chosen), self.epochs, self.batch_size, {"test": splits.test})

    def kept(self, index: int, num_images: int) -> slice:
        """Which of the images in their order the stage at the index has."""
        return slice(*(num_images * chunk // self.num_stages for chunk in (self.oldest(index), index + 1)))


@dataclass(frozen=True, kw_only=True)
class ContinualFull(Arrival):
    """Stage k trains on chunks 1 to k. A new optimizer at each stage."""

    name = "continual_full"

    def oldest(self, index: int) -> int:
        return 0


@dataclass(frozen=True, kw_only=True)
class ContinualLimited(Arrival):
    """Stage k trains on chunk k alone. A new optimizer at each stage."""

    name = "continual_limited"

    def oldest(self, index: int) -> int:
        return index
