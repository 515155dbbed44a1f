"""Incremental CIFAR-100 (Dohare et al. 2024): five more classes every 200 epochs, and the best epoch goes on."""

from dataclasses import dataclass, replace

import torch

from supple_lab.data.augment import Augmentation
from supple_lab.data.base import Facts, Splits
from supple_lab.data.slice import rank_in_class
from supple_lab.errors import at_least
from supple_lab.scenarios.base import Scenario, Size, Stage, Unsuitable
from supple_lab.scenarios.class_incremental import both_of_classes, check_groups
from supple_lab.streams import stream

AUGMENTATION = Augmentation(padding="reflect", max_degrees=15.0)


@dataclass(frozen=True, kw_only=True)
class IncrementalCIFAR(Scenario):
    """Stage k trains on groups 1 to k; outputs of classes to come are masked. One optimizer throughout.

    The first ``num_validation`` images of a class are held out; at a stage's end the weights of the epoch with the best
    accuracy on them are put back. The learning rate falls to a fifth at 30%, 60% and 80% of a stage. Images are
    flipped, cropped and turned at random.
    """

    name = "incremental_cifar"
    num_stages: int = 20  # as many as groups
    epochs: int = 200
    batch_size: int = 90
    num_validation: int = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(1, self, "num_validation")

    def check(self, facts: Facts) -> None:
        check_groups(self, facts)
        if facts.num_train // facts.num_classes <= self.num_validation:
            raise Unsuitable(
                f"IncrementalCIFAR.num_validation is {self.num_validation}, but a class has about "
                f"{facts.num_train // facts.num_classes} training images; choose fewer."
            )

    def size(self, index: int, facts: Facts) -> Size:
        num_held_out = self.num_validation * facts.num_classes
        num_images = (facts.num_train - num_held_out) * (index + 1) // self.num_stages
        return Size(num_images, self.epochs, self.batch_size)

    def stage(self, index: int, splits: Splits, seed: int) -> Stage:
        order = torch.randperm(splits.num_classes, generator=stream(seed, "classes"))
        learned = order[: (index + 1) * (splits.num_classes // self.num_stages)]
        arrival = order.argsort()  # classes are numbered by when they arrive
        train, test = (
            replace(own, labels_N=arrival.to(own.labels_N.device)[own.labels_N])
            for own in both_of_classes(self, splits, learned, index)
        )
        held_out = rank_in_class(train.labels_N) < self.num_validation
        validation, train = train.subset(held_out.nonzero()[:, 0]), train.subset((~held_out).nonzero()[:, 0])
        return Stage(
            train,
            self.epochs,
            self.batch_size,
            {"test": test, "validation": validation},
            milestones=tuple(int(share * self.epochs) for share in (0.3, 0.6, 0.8)),
            decay=0.2,
            num_classes=len(learned),
            best_on="validation",
            in_epoch=AUGMENTATION.in_epoch(train, seed=seed, stage=index),
        )
