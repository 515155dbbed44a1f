"""Continual full (paper section 5.1.2): data arrives chunk by chunk and all that arrived is kept."""

from dataclasses import dataclass

from supple_lab.data.base import Facts, Splits
from supple_lab.scenarios.base import Scenario, Size, Stage, at_least_one
from supple_lab.scenarios.chunks import check_chunks, chunk_bounds, chunk_order


@dataclass(frozen=True, kw_only=True)
class ContinualFull(Scenario):
    """Stage k trains on chunks 1 to k; tested on the whole test set. A new optimizer at each stage."""

    name = "continual_full"
    fresh_optimizer = True
    num_stages: int = 10
    epochs: int = 100
    batch_size: int = 256

    def __post_init__(self) -> None:
        at_least_one(self, "num_stages", "epochs", "batch_size")

    def check(self, facts: Facts) -> None:
        check_chunks(self.num_stages, facts, field="ContinualFull.num_stages")

    def size(self, index: int, facts: Facts) -> Size:
        return Size(chunk_bounds(facts.num_train, self.num_stages)[index + 1], self.epochs, self.batch_size)

    def stage(self, index: int, splits: Splits, seed: int) -> Stage:
        arrived = chunk_bounds(len(splits.train), self.num_stages)[index + 1]
        chosen = chunk_order(len(splits.train), seed)[:arrived]
        return Stage(splits.train.subset(chosen), self.epochs, self.batch_size, {"test": splits.test})
