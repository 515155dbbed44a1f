"""Online permuted MNIST (Kumar et al. 2023): other images and another order of the pixels at each stage, seen once."""

from dataclasses import dataclass

import torch

from supple_lab.data.base import Splits
from supple_lab.scenarios.base import Scenario, Stage
from supple_lab.scenarios.permuted_input import permuted
from supple_lab.streams import stream


@dataclass(frozen=True, kw_only=True)
class OnlinePermutedInput(Scenario):
    """One pass over ``num_images`` drawn again at each stage; pixels as they are in the first, permuted in the others.

    Score the online accuracy. One optimizer throughout.
    """

    name = "online_permuted_input"
    num_stages: int = 500
    epochs = 1
    batch_size: int = 16
    num_images: int = 10_000  # 625 steps

    def stage(self, index: int, splits: Splits, seed: int) -> Stage:
        chosen = torch.randperm(len(splits.train), generator=stream(seed, "images", index))[: self.num_images]
        train = splits.train.subset(chosen)
        if index:
            _, height, width = train.image_shape
            train = permuted(train, torch.randperm(height * width, generator=stream(seed, "pixels", index)))
        return Stage(train, self.epochs, self.batch_size)
