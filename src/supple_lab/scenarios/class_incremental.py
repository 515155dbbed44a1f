"""Class incremental (paper section 5.1.2): groups of classes arrive one after the other, and all are kept."""

from dataclasses import dataclass

import torch
from torch import Tensor

from supple_lab.data.base import Examples, Facts, Splits
from supple_lab.scenarios.base import Scenario, Size, Stage, Unsuitable
from supple_lab.streams import stream


@dataclass(frozen=True, kw_only=True)
class ClassIncremental(Scenario):
    """Stage k trains on groups 1 to k; tested on the classes learned so far and on all. One head of full size.

    A new optimizer at each stage.
    """

    name = "class_incremental"
    fresh_optimizer = True
    num_stages: int = 20  # as many as groups
    epochs: int = 100
    batch_size: int = 256

    def check(self, facts: Facts) -> None:
        if facts.num_classes % self.num_stages:
            raise Unsuitable(
                f"ClassIncremental cuts the classes into {self.num_stages} equal groups, but the dataset has "
                f"{facts.num_classes} classes; choose num_stages among the divisors of that."
            )

    def size(self, index: int, facts: Facts) -> Size:
        return Size(facts.num_train * (index + 1) // self.num_stages, self.epochs, self.batch_size)

    def stage(self, index: int, splits: Splits, seed: int) -> Stage:
        order = torch.randperm(splits.num_classes, generator=stream(seed, "classes"))
        learned = order[: (index + 1) * (splits.num_classes // self.num_stages)]
        train, test = of_classes(splits.train, learned), of_classes(splits.test, learned)
        if not len(train) or not len(test):
            raise Unsuitable(
                f"ClassIncremental: classes {sorted(learned.tolist())}, learned in stage {index + 1}, have "
                f"{len(train)} training and {len(test)} test images; there must be some. Use more of the dataset."
            )
        return Stage(train, self.epochs, self.batch_size, {"test": splits.test, "learned_test": test})


def of_classes(examples: Examples, classes: Tensor) -> Examples:
    member = torch.isin(examples.labels_N, classes.to(examples.labels_N.device))
    return examples.subset(member.nonzero().flatten())
