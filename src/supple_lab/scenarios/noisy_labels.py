"""Noisy labels (Lee et al. 2024, Hare & Tortoise): data piles up while a falling share of its labels is wrong."""

from dataclasses import dataclass, field, replace

import torch

from supple_lab.data.augment import Augmentation
from supple_lab.data.base import Splits
from supple_lab.scenarios.base import Stage
from supple_lab.scenarios.continual import ContinualFull
from supple_lab.streams import stream

AUGMENTATION = Augmentation(padding="black")
WARM_UP = 0.1  # share of a stage in which the learning rate rises


@dataclass(frozen=True, kw_only=True)
class NoisyLabels(ContinualFull):
    """Stage k trains on chunks 1 to k, a share ``noise`` of the labels drawn wrong again at each stage.

    ``augmented`` images are cropped and flipped at random; the learning rate rises in the first tenth of a stage; tests
    are clean. A new optimizer at each stage.
    """

    name = "noisy_labels"
    noise: tuple[float, ...] = (0.5, 0.4, 0.4, 0.3, 0.3, 0.2, 0.2, 0.1, 0.1, 0.0)  # a stage each
    augmented: bool = field(default=True, metadata={"later": True})  # a crop moves digits of 8x8 out of their images

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.noise) != self.num_stages or not all(0.0 <= share <= 1.0 for share in self.noise):
            raise ValueError(
                f"NoisyLabels.noise has a share in [0, 1] for each of {self.num_stages} stages; got {self.noise}."
            )

    def stage(self, index: int, splits: Splits, seed: int) -> Stage:
        clean, generator = super().stage(index, splits, seed), stream(seed, "noise", index)
        labels = clean.train.labels_N.cpu().clone()
        wrong = torch.randperm(len(labels), generator=generator)[: int(self.noise[index] * len(labels))]
        others = torch.randint(1, splits.num_classes, (len(wrong),), generator=generator)
        labels[wrong] = (labels[wrong] + others) % splits.num_classes
        train = clean.train.relabelled(labels)
        return replace(
            clean,
            train=train,
            warm_up=int(WARM_UP * self.epochs),
            in_epoch=AUGMENTATION.in_epoch(train, seed=seed, stage=index) if self.augmented else None,
        )
