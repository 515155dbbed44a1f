"""5+1 CIFAR (Kumar et al. 2023): a hard stage of five new classes, an easy one of one, until the classes end."""

from dataclasses import dataclass

import torch

from supple_lab.data.base import Facts, Splits
from supple_lab.errors import at_least
from supple_lab.scenarios.base import Scenario, Size, Stage, Unsuitable
from supple_lab.scenarios.class_incremental import both_of_classes
from supple_lab.streams import stream


@dataclass(frozen=True, kw_only=True)
class FivePlusOne(Scenario):
    """Stages of ``hard_classes`` and ``easy_classes`` new classes in turn, none kept. Score the hard ones, 1, 3, ...

    Each stage shows about ``num_shown`` images: four passes over five classes of CIFAR-100, twenty over one. One head
    of full size. One optimizer throughout.
    """

    name = "five_plus_one"
    num_stages: int = 31  # the authors' code has classes for 32 and ends a stage before
    num_shown: int = 10_000  # 625 batches of 16
    batch_size: int = 16
    hard_classes: int = 5
    easy_classes: int = 1

    def __post_init__(self) -> None:
        at_least(1, self, "num_stages", "num_shown", "batch_size", "hard_classes", "easy_classes")

    def classes(self, index: int) -> slice:
        """Which of the classes in their order the stage at the index has."""
        pairs, is_easy = divmod(index, 2)
        first = pairs * (self.hard_classes + self.easy_classes) + is_easy * self.hard_classes
        return slice(first, first + (self.easy_classes if is_easy else self.hard_classes))

    def check(self, facts: Facts) -> None:
        needed = self.classes(self.num_stages - 1).stop
        if needed > facts.num_classes:
            raise Unsuitable(
                f"FivePlusOne needs {needed} classes for {self.num_stages} stages, but the dataset has "
                f"{facts.num_classes}; choose a smaller num_stages."
            )

    def size(self, index: int, facts: Facts) -> Size:
        own = self.classes(index)
        num_images = facts.num_train * (own.stop - own.start) // facts.num_classes
        return Size(num_images, max(1, round(self.num_shown / max(1, num_images))), self.batch_size)

    def stage(self, index: int, splits: Splits, seed: int) -> Stage:
        order = torch.randperm(splits.num_classes, generator=stream(seed, "classes"))
        train, test = both_of_classes(self, splits, order[self.classes(index)], index)
        size = self.size(index, splits.facts)  # captured steps have room for no more images, if classes are unequal
        return Stage(train.first(size.num_images), size.epochs, self.batch_size, {"test": test})
