"""Batches: a stage's examples in a shuffled order, drawn from the run's own stream, without leaving the device."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from supple_lab.data.base import Examples
from supple_lab.streams import stream


@dataclass(frozen=True)
class Batches:
    """One epoch: the same order each time it is iterated over. The short last batch is kept."""

    examples: Examples
    batch_size: int
    seed: int
    stage: int
    epoch: int | str  # a name instead of a number: a pass of a method, not of training

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for indices in self.indices():
            yield self.examples.batch(indices)

    def indices(self) -> tuple[Tensor, ...]:
        order = torch.randperm(len(self.examples), generator=stream(self.seed, "order", self.stage, self.epoch))
        return order.to(self.examples.labels_N.device).split(self.batch_size)

    def __len__(self) -> int:
        return -(-len(self.examples) // self.batch_size)
