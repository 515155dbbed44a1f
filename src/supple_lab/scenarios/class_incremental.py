"""Class incremental (paper section 5.1.2): groups of classes arrive one after the other, and all or some are kept."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from supple_lab.data.base import Examples, Facts, Splits
from supple_lab.errors import at_least
from supple_lab.scenarios.base import Scenario, Size, Stage, Unsuitable
from supple_lab.streams import stream


@dataclass(frozen=True, kw_only=True)
class ClassIncremental(Scenario):
    """Stage k trains on groups 1 to k; tested on the classes learned so far and on all. One head of full size.

    A new optimizer at each stage. With ``replay``, only so many images of each class are left for the stages after its
    own, the same ones in all of them: a replay buffer, which is not in the paper. Its epochs are so short that to test
    after each would take longer than to train: it is tested at the end of a stage.
    """

    name = "class_incremental"
    fresh_optimizer = True
    num_stages: int = 20  # as many as groups
    epochs: int = 100
    batch_size: int = 256
    replay: int | None = field(default=None, metadata={"later": True})  # images of an earlier class; None: all

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(1, self, "replay")

    def check(self, facts: Facts) -> None:
        check_groups(self, facts)

    def size(self, index: int, facts: Facts) -> Size:
        num_images = facts.num_train * (index + 1) // self.num_stages
        if self.replay is not None:
            num_earlier = facts.num_classes * index // self.num_stages
            kept = min(self.replay, facts.num_train // facts.num_classes)
            num_images = facts.num_train // self.num_stages + num_earlier * kept
        return Size(num_images, self.epochs, self.batch_size)

    def stage(self, index: int, splits: Splits, seed: int) -> Stage:
        order = torch.randperm(splits.num_classes, generator=stream(seed, "classes"))
        num_new = splits.num_classes // self.num_stages
        learned = order[: (index + 1) * num_new]
        train, test = both_of_classes(self, splits, learned, index)
        if self.replay is not None:
            train = self._replayed(splits.train, earlier=learned[:-num_new], new=learned[-num_new:], seed=seed)
        tests = {"test": splits.test, "learned_test": test}
        return Stage(train, self.epochs, self.batch_size, tests, tests_every_epoch=self.replay is None)

    def _replayed(self, examples: Examples, *, earlier: Tensor, new: Tensor, seed: int) -> Examples:
        """All images of the new classes, and of each earlier one those drawn first for the buffer."""
        order = torch.randperm(len(examples), generator=stream(seed, "replay"))
        labels = examples.labels_N.cpu()[order]
        kept = [order[labels == one][: self.replay] for one in earlier.tolist()]
        chosen = torch.cat([order[torch.isin(labels, new)], *kept]).sort().values
        return examples.subset(chosen.to(examples.labels_N.device))


def check_groups(scenario: Scenario, facts: Facts) -> None:
    if facts.num_classes % scenario.num_stages:
        raise Unsuitable(
            f"{type(scenario).__name__} cuts the classes into {scenario.num_stages} equal groups, but the dataset has "
            f"{facts.num_classes} classes; choose num_stages among the divisors of that."
        )


def both_of_classes(scenario: Scenario, splits: Splits, classes: Tensor, index: int) -> tuple[Examples, Examples]:
    """The images of the classes, for training and for test; Unsuitable if there are none."""
    train, test = of_classes(splits.train, classes), of_classes(splits.test, classes)
    if not len(train) or not len(test):
        raise Unsuitable(
            f"{type(scenario).__name__}: classes {sorted(classes.tolist())} of stage {index + 1} have {len(train)} "
            f"training and {len(test)} test images; there must be some. Use more of the dataset."
        )
    return train, test


def of_classes(examples: Examples, classes: Tensor) -> Examples:
    member = torch.isin(examples.labels_N, classes.to(examples.labels_N.device))
    return examples.subset(member.nonzero().flatten())
