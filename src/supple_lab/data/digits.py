"""Digits: 1,797 handwritten digits of 8x8 pixels that come inside scikit-learn: real data without a download."""

from dataclasses import dataclass, field
from typing import Literal

import torch

from supple_lab.data.base import Dataset, Examples, Facts, Splits

NUM_TRAIN, NUM_TEST = 1600, 197  # the paper's random-label experiments use 1,600 images
BRIGHTEST = 16  # the files hold 0 .. 16
SHAPES = {"1x8x8": (1, 8, 8), "3x32x32": (3, 32, 32)}


@dataclass(frozen=True, kw_only=True)
class Digits(Dataset):
    """Grey images in [0, 1], 1x8x8 or, for convolutional nets, 3x32x32; the first 1,600 train, the other 197 test."""

    name = "digits"
    image: Literal["1x8x8", "3x32x32"] = field(default="1x8x8", metadata={"later": True})
    """3x32x32 shows every pixel as 4x4 equal ones, in three equal channels."""

    @property
    def facts(self) -> Facts:
        return Facts(image_shape=SHAPES[self.image], num_train=NUM_TRAIN, num_test=NUM_TEST, num_classes=10)

    def load(self, device: torch.device) -> Splits:
        from sklearn.datasets import load_digits  # half a second: imported by the runs that need it

        pixels, labels = load_digits(return_X_y=True)
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
