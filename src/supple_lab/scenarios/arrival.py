"""Arrival: data that comes chunk by chunk, one at each stage (paper section 5.1.2); a subclass says what is kept."""

from abc import abstractmethod
from dataclasses import dataclass

from supple_lab.data.base import Facts, Splits
from supple_lab.scenarios.base import Scenario, Size, Stage, at_least_one
from supple_lab.scenarios.chunks import check_chunks, chunk_bounds, chunk_order


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
