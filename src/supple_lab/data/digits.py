"""Digits: 1,797 handwritten digits of 8x8 pixels that come inside scikit-learn: real data without a download."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import torch

from supple_lab.data.base import Dataset, Examples, Facts, Splits

NUM_TRAIN, NUM_TEST = 1600, 197  # the paper's random-label experiments use 1,600 images
BRIGHTEST = 16  # the files hold 0 .. 16
SHAPES = {"1x8x8": (1, 8, 8), "1x16x16": (1, 16, 16), "3x32x32": (3, 32, 32)}


@dataclass(frozen=True, kw_only=True)
class Digits(Dataset):
    """Grey images in [0, 1], 1x8x8 or larger for convolutional nets; the first 1,600 train, the other 197 test."""

    name = "digits"
    image: Literal["1x8x8", "1x16x16", "3x32x32"] = field(default="1x8x8", metadata={"later": True})
    """1x16x16 shows every pixel as 2x2 equal ones, 3x32x32 as 4x4, in three equal channels."""

    @property
    def facts(self) -> Facts:
        return Facts(image_shape=SHAPES[self.image], num_train=NUM_TRAIN, num_test=NUM_TEST, num_classes=10)

    def load(self, device: torch.device) -> Splits:
        pixels, labels = read_digits()
        channels, height, width = SHAPES[self.image]
        images = torch.from_numpy(pixels).view(-1, 1, 8, 8).mul(255 / BRIGHTEST).round().to(device, torch.uint8)
        images = images.repeat_interleave(height // 8, dim=2).repeat_interleave(width // 8, dim=3)
        examples = Examples(
            images_NCHW=images.repeat(1, channels, 1, 1),
            labels_N=torch.from_numpy(labels).long().to(device),
            mean_C11=torch.zeros(channels, 1, 1, device=device),
            std_C11=torch.ones(channels, 1, 1, device=device),
        )
        order = torch.arange(len(examples))
        return Splits(examples.subset(order[:NUM_TRAIN]), examples.subset(order[NUM_TRAIN:]), num_classes=10)


@cache
def read_digits() -> tuple[Any, Any]:
    """Pixels and labels, read once a process: parsing takes as long as 40 training steps of a small network."""
    from sklearn.datasets import load_digits  # half a second: imported by the runs that need it

    pixels, labels = load_digits(return_X_y=True)
    return pixels, labels
