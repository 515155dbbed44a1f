"""Label-permuted CIFAR-10 (Elsayed & Mahmood 2024): single images, whose classes change names at each stage."""

from dataclasses import dataclass

import torch

from supple_lab.data.base import Splits
from supple_lab.scenarios.base import Scenario, Stage
from supple_lab.streams import stream


@dataclass(frozen=True, kw_only=True)
class LabelPermuted(Scenario):
    """Images drawn again from the whole at each stage, shown once, their labels permuted. One optimizer throughout."""

    name = "label_permuted"
    num_stages: int = 400
    epochs = 1
    batch_size: int = 1
    num_images: int = 2500  # of a stage: a million in all

    def stage(self, index: int, splits: Splits, seed: int) -> Stage:
        chosen = torch.randperm(len(splits.train), generator=stream(seed, "images", index))[: self.num_images]
        names = torch.randperm(splits.num_classes, generator=stream(seed, "label names", index))
        train = splits.train.subset(chosen)
        return Stage(train.relabelled(names.to(train.labels_N.device)[train.labels_N]), self.epochs, self.batch_size)
