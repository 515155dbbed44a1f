"""Label-permuted CIFAR-10 (Elsayed & Mahmood 2024): single images, whose classes change names at each stage."""

from dataclasses import dataclass

import torch

from supple_lab.data.base import Facts, Splits
from supple_lab.errors import at_least
from supple_lab.scenarios.base import Scenario, Size, Stage, Unsuitable
from supple_lab.streams import stream


@dataclass(frozen=True, kw_only=True)
class LabelPermuted(Scenario):
    """Images drawn again from the whole at each stage, shown once, their labels permuted. One optimizer throughout."""

    name = "label_permuted"
    fresh_optimizer = False
    num_stages: int = 400
    batch_size: int = 1
    num_images: int = 2500  # of a stage: a million in all

    def __post_init__(self) -> None:
        at_least(1, self, "num_stages", "batch_size", "num_images")

    def check(self, facts: Facts) -> None:
        if self.num_images > facts.num_train:
            raise Unsuitable(
                f"LabelPermuted.num_images is {self.num_images}, but the dataset has {facts.num_train} training images."
            )

    def size(self, index: int, facts: Facts) -> Size:
        return Size(self.num_images, 1, self.batch_size)

    def stage(self, index: int, splits: Splits, seed: int) -> Stage:
        chosen = torch.randperm(len(splits.train), generator=stream(seed, "images", index))[: self.num_images]
        names = torch.randperm(splits.num_classes, generator=stream(seed, "label names", index))
        train = splits.train.subset(chosen)
        return Stage(train.relabelled(names.to(train.labels_N.device)[train.labels_N]), 1, self.batch_size)
