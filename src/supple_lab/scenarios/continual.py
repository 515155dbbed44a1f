"""Chunks: a training set cut into equal parts at random, the same for all methods of a seed."""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from supple_lab.data.base import Facts, Splits
from supple_lab.scenarios.base import Scenario, Size, Stage, Unsuitable, at_least_one
from supple_lab.streams import stream


def chunk_bounds(num_images: int, num_chunks: int) -> list[int]:
    """Where each chunk begins, and where the last one ends; sizes differ by one at most."""
    return [num_images * k // num_chunks for k in range(num_chunks + 1)]


def chunk_order(num_images: int, seed: int) -> Tensor:
    """The order of the images before they are cut."""
    return torch.randperm(num_images, generator=stream(seed, "chunks"))


def check_chunks(num_chunks: int, facts: Facts, *, field: str) -> None:
    """Refuse more chunks than images."""
    if num_chunks > facts.num_train:
        raise Unsuitable(f"{field} is {num_chunks}, but the dataset has {facts.num_train} training images to share.")


@dataclass(frozen=True, kw_only=True)
class Arrival(Scenario):
    """Stage k trains on the chunks from the oldest kept to the k-th; tested on the whole test set."""

    fresh_optimizer = True
    num_stages: int = 10
    epochs: int = 100
    batch_size: int = 256

    def __post_init__(self) -> None:
        at_least_one(self, "num_stages", "epochs", "batch_size")

    @abstractmethod
    def oldest(self, index: int) -> int:
        """The first chunk that the stage at the index has, counted from 0."""

    def check(self, facts: Facts) -> None:
        check_chunks(self.num_stages, facts, field=f"{type(self).__name__}.num_stages")

    def size(self, index: int, facts: Facts) -> Size:
        chosen = self.kept(index, facts.num_train)
        return Size(chosen.stop - chosen.start, self.epochs, self.batch_size)

    def stage(self, index: int, splits: Splits, seed: int) -> Stage:
        chosen = chunk_order(len(splits.train), seed)[self.kept(index, len(splits.train))]
        return Stage(splits.train.subset(chosen), self.epochs, self.batch_size, {"test": splits.test})

    def kept(self, index: int, num_images: int) -> slice:
        """Which of the images in their order the stage at the index has."""
        bounds = chunk_bounds(num_images, self.num_stages)
        return slice(bounds[self.oldest(index)], bounds[index + 1])


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
