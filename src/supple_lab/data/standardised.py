"""Standardised: another dataset, its inputs with mean 0 and deviation 1; of MNIST the paper takes off no mean."""

from dataclasses import dataclass, replace

import torch

from supple_lab.data.base import Dataset, Facts, Splits
from supple_lab.data.idx import MNIST


@dataclass(frozen=True, kw_only=True)
class Standardised(Dataset):
    """By channel, over all pixels of the training images; the test images by the same numbers."""

    name = "standardised"
    of: Dataset = MNIST()  # noqa: RUF009  a frozen value
    """Which dataset."""

    @property
    def facts(self) -> Facts:
        return self.of.facts

    def check_here(self) -> None:
        self.of.check_here()

    def load(self, device: torch.device) -> Splits:
        splits = self.of.load(device)
        images = splits.train.images_NCHW.float() / 255
        std, mean = (part.view(-1, 1, 1) for part in torch.std_mean(images, dim=(0, 2, 3)))
        train, test = (replace(part, mean_C11=mean, std_C11=std) for part in (splits.train, splits.test))
        return replace(splits, train=train, test=test)
