"""Stationary (paper section 5.3): ordinary supervised learning, nothing changes but the learning rate."""

from dataclasses import dataclass

from supple_lab.data.base import Splits
from supple_lab.scenarios.base import Scenario, Stage


@dataclass(frozen=True, kw_only=True)
class Stationary(Scenario):
    """One stage on the whole training set; the learning rate falls to a tenth at each milestone."""

    name = "stationary"
    takes_text = True
    fresh_optimizer = True  # there is no second stage to begin
    num_stages = 1
    epochs: int = 200
    batch_size: int = 256
    milestones: tuple[int, ...] = (100, 150)

    def __post_init__(self) -> None:
        super().__post_init__()
        if list(self.milestones) != sorted(set(self.milestones)) or any(epoch < 1 for epoch in self.milestones):
            raise ValueError(f"Stationary.milestones are epochs in rising order; got {self.milestones}.")

    def stage(self, index: int, splits: Splits, seed: int) -> Stage:
        return Stage(splits.train, self.epochs, self.batch_size, {"test": splits.test}, self.milestones)
