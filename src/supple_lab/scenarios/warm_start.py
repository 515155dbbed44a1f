"""Warm start (paper section 3.2, after Ash and Adams 2020): a long stage on a part of the data, then all of it."""

from dataclasses import dataclass

import torch

from supple_lab.data.base import Facts, Splits
from supple_lab.errors import at_least, positive, within
from supple_lab.scenarios.base import Scenario, Size, Stage, Unsuitable
from supple_lab.streams import stream


@dataclass(frozen=True, kw_only=True)
class WarmStart(Scenario):
    """Stage 1: a tenth of the training set; stage 2: the whole. Its cold counterpart is `stationary` without decay.

    A new optimizer at each stage.
    """

    name = "warm_start"
    fresh_optimizer = True
    num_stages = 2
    share: float = 0.1  # of the data, in the first stage
    warm_epochs: int = 1000
    epochs: int = 100
    batch_size: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(1, self, "warm_epochs")
        positive(self, "share")
        within(0, 1, self, "share")

    def check(self, facts: Facts) -> None:
        if round(self.share * facts.num_train) < 1:
            raise Unsuitable(f"WarmStart.share is {self.share}, not one of {facts.num_train} training images.")

    def size(self, index: int, facts: Facts) -> Size:
        warm = Size(round(self.share * facts.num_train), self.warm_epochs, self.batch_size)
        return warm if index == 0 else super().size(index, facts)

    def stage(self, index: int, splits: Splits, seed: int) -> Stage:
        tests = {"test": splits.test}
        if index == 1:
            return Stage(splits.train, self.epochs, self.batch_size, tests)
        order = torch.randperm(len(splits.train), generator=stream(seed, "warm"))
        part = splits.train.subset(order[: round(self.share * len(splits.train))])
        # Its epochs are short: a test after each takes nearly as long as the training.
        return Stage(part, self.warm_epochs, self.batch_size, tests, tests_every_epoch=False)
