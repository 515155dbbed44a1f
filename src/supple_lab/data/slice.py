"""Slice: a fixed, balanced part of another dataset, for scaled-down studies on real data."""

from dataclasses import dataclass

import torch
from torch import Tensor

from supple_lab.data.base import DataError, Dataset, Examples, Facts, Splits
from supple_lab.data.cifar import CIFAR10
from supple_lab.errors import within
from supple_lab.streams import stream


@dataclass(frozen=True, kw_only=True)
class Slice(Dataset):
    """The same random part of another dataset each time, classes as equal as they can be."""

    name = "slice"
    of: Dataset = CIFAR10()  # noqa: RUF009  a frozen value
    """Which dataset."""
    num_train: int = 5000
    """Training images in the slice."""
    num_test: int = 2000
    """Test images in the slice."""

    def __post_init__(self) -> None:
        within(1, self.of.facts.num_train, self, "num_train")
        within(1, self.of.facts.num_test, self, "num_test")

    @property
    def facts(self) -> Facts:
        whole = self.of.facts
        return Facts(
            image_shape=whole.image_shape,
            num_train=self.num_train,
            num_test=self.num_test,
            num_classes=whole.num_classes,
        )

    def check_here(self) -> None:
        self.of.check_here()

    def load(self, device: torch.device) -> Splits:
        whole = self.of.load(torch.device("cpu"))
        return Splits(
            self._part(whole.train, self.num_train, split="train"),
            self._part(whole.test, self.num_test, split="test"),
            num_classes=whole.num_classes,
        ).to(device)

    def _part(self, examples: Examples, number: int, *, split: str) -> Examples:
        if number > len(examples):  # a dataset that is allowed to be partial
            raise DataError(f"slice of {self.of.name}: {number:,} {split} images wanted, {len(examples):,} there")
        order = torch.randperm(len(examples), generator=stream(0, "slice", split))
        return examples.subset(balanced(examples.labels_N, order)[:number].sort().values)


def balanced(labels_N: Tensor, order: Tensor) -> Tensor:
    """The order rearranged so that each class gives its first, then each its second, as long as it has more."""
    return order[rank_in_class(labels_N[order]).argsort(stable=True)]


def rank_in_class(labels_N: Tensor) -> Tensor:
    """How many earlier examples have the same label."""
    by_class = labels_N.argsort(stable=True)
    counts = labels_N.bincount()
    starts = counts.cumsum(0) - counts
    ranks = torch.empty_like(labels_N)
    ranks[by_class] = torch.arange(len(labels_N), device=labels_N.device) - starts[labels_N[by_class]]
    return ranks
