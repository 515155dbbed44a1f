"""Digits: 1,797 handwritten digits of 8x8 pixels that come inside scikit-learn: real data without a download."""

from dataclasses import dataclass

import torch

from supple_lab.data.base import Dataset, Examples, Splits

NUM_TRAIN = 1600  # the paper's random-label experiments use 1,600 images
BRIGHTEST = 16  # the files hold 0 .. 16


@dataclass(frozen=True, kw_only=True)
class Digits(Dataset):
    """Grey 1x8x8 images in [0, 1]; the first 1,600 train, the other 197 test."""

    name = "digits"

    def load(self, device: torch.device) -> Splits:
        from sklearn.datasets import load_digits  # half a second: imported by the runs that need it

        pixels, labels = load_digits(return_X_y=True)
        images = torch.from_numpy(pixels).view(-1, 1, 8, 8).mul(255 / BRIGHTEST).round().to(device, torch.uint8)
        examples = Examples(
            images_NCHW=images,
            labels_N=torch.from_numpy(labels).long().to(device),
            mean_C11=torch.zeros(1, 1, 1, device=device),
            std_C11=torch.ones(1, 1, 1, device=device),
        )
        order = torch.arange(len(examples))
        return Splits(examples.subset(order[:NUM_TRAIN]), examples.subset(order[NUM_TRAIN:]), num_classes=10)
