"""Online permuted MNIST (Kumar et al. 2023): other images and another order of the pixels at each stage, seen once."""

from dataclasses import dataclass

import torch

from supple_lab.data.base import Facts, Splits
from supple_lab.errors import at_least
from supple_lab.scenarios.base import Scenario, Size, Stage, Unsuitable
from supple_lab.scenarios.permuted_input import permuted
from supple_lab.streams import stream


@dataclass(frozen=True, kw_only=True)
class OnlinePermutedInput(Scenario):
    """One pass over ``num_images`` drawn again at each stage; pixels as they are in the first, permuted in the others.

    Score the online accuracy. One optimizer throughout.
    """

    name = "online_permuted_input"
    fresh_optimizer = False
    num_stages: int = 500
    batch_size: int = 16
    num_images: int = 10_000  # 625 steps

    def __post_init__(self) -> None:
        at_least(1, self, "num_stages", "batch_size", "num_images")

    def check(self, facts: Facts) -> None:
        if self.num_images > facts.num_train:
            raise Unsuitable(
                f"OnlinePermutedInput.num_images is {self.num_images}, but the dataset has {facts.num_train} training "
                "images."
            )

    def size(self, index: int, facts: Facts) -> Size:
        return Size(self.num_images, 1, self.batch_size)

    def stage(self, index: int, splits: Splits, seed: int) -> Stage:
        chosen = torch.randperm(len(splits.train), generator=stream(seed, "images", index))[: self.num_images]
        train = splits.train.subset(chosen)
        if index:
            _, height, width = train.image_shape
            train = permuted(train, torch.randperm(height * width, generator=stream(seed, "pixels", index)))
        return Stage(train, 1, self.batch_size)
