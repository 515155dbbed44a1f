"""Random label (paper section 5.1.1): one fixed set of images, whose labels are drawn again at each stage."""

from dataclasses import dataclass

import torch

from supple_lab.data.base import Facts, Splits
from supple_lab.errors import at_least
from supple_lab.scenarios.base import Scenario, Size, Stage, Unsuitable
from supple_lab.streams import stream


@dataclass(frozen=True, kw_only=True)
class RandomLabel(Scenario):
    """Labels independent and uniform per image: nothing to generalise, all to memorise. One optimizer throughout."""

    name = "random_label"
    fresh_optimizer = False
    num_stages: int = 200
    epochs: int = 100
    batch_size: int = 64
    num_images: int = 1600

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(1, self, "num_images")

    def check(self, facts: Facts) -> None:
        if self.num_images > facts.num_train:
            raise Unsuitable(
                f"RandomLabel.num_images is {self.num_images}, but the dataset has {facts.num_train} training images."
            )

    def size(self, index: int, facts: Facts) -> Size:
        return Size(self.num_images, self.epochs, self.batch_size)

    def stage(self, index: int, splits: Splits, seed: int) -> Stage:
        chosen = torch.randperm(len(splits.train), generator=stream(seed, "images"))[: self.num_images]
        labels = torch.randint(splits.num_classes, (self.num_images,), generator=stream(seed, "labels", index))
        return Stage(splits.train.subset(chosen).relabelled(labels), self.epochs, self.batch_size)
