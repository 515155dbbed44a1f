"""Random label (paper section 5.1.1): one fixed set of images, whose labels are drawn again at each stage."""

from dataclasses import dataclass

import torch

from supple_lab.data.base import Splits
from supple_lab.scenarios.base import Scenario, Stage
from supple_lab.streams import stream


@dataclass(frozen=True, kw_only=True)
class RandomLabel(Scenario):
    """Labels independent and uniform per image: nothing to generalise, all to memorise. One optimizer throughout."""

    name = "random_label"
    num_stages: int = 200
    epochs: int = 100
    batch_size: int = 64
    num_images: int = 1600

    def stage(self, index: int, splits: Splits, seed: int) -> Stage:
        chosen = torch.randperm(len(splits.train), generator=stream(seed, "images"))[: self.num_images]
        labels = torch.randint(splits.num_classes, (self.num_images,), generator=stream(seed, "labels", index))
        return Stage(splits.train.subset(chosen).relabelled(labels), self.epochs, self.batch_size)
