"""Continual limited (paper section 5.1.2): data arrives chunk by chunk and what came before is gone."""

from dataclasses import dataclass

from supple_lab.data.base import Facts, Splits
from supple_lab.scenarios.base import Scenario, Size, Stage, at_least_one
from supple_lab.scenarios.chunks import check_chunks, chunk_bounds, chunk_order


@dataclass(frozen=True, kw_only=True)
class ContinualLimited(Scenario):
    """Stage k trains on chunk k alone; tested on the whole test set. A new optimizer at each stage."""

    name = "continual_limited"
    fresh_optimizer = True
    num_stages: int = 10
    epochs: int = 100
    batch_size: int = 256

    def __post_init__(self) -> None:
        at_least_one(self, "num_stages", "epochs", "batch_size")

    def check(self, facts: Facts) -> None:
        check_chunks(self.num_stages, facts, field="ContinualLimited.num_stages")

    def size(self, index: int, facts: Facts) -> Size:
        bounds = chunk_bounds(facts.num_train, self.num_stages)
        return Size(bounds[index + 1] - bounds[index], self.epochs, self.batch_size)

    def stage(self, index: int, splits: Splits, seed: int) -> Stage:
        bounds = chunk_bounds(len(splits.train), self.num_stages)
        chosen = chunk_order(len(splits.train), seed)[bounds[index] : bounds[index + 1]]
        return Stage(splits.train.subset(chosen), self.epochs, self.batch_size, {"test": splits.test})
