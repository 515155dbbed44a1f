"""Permuted input (paper section 5.1.1): the same images and labels, whose pixels are shuffled again at each stage."""

from dataclasses import dataclass, field, replace

import torch

from supple_lab.data.base import Examples, Splits
from supple_lab.scenarios.base import Scenario, Stage
from supple_lab.streams import stream

NUM_SCORED = 10_000  # images scored at a stage's end: all 60,000 would cost a third of the stage's training


@dataclass(frozen=True, kw_only=True)
class PermutedInput(Scenario):
    """One permutation of the pixels per stage, of the original images; one pass over all. One optimizer throughout."""

    name = "permuted_input"
    num_stages: int = 800
    epochs: int = 1
    batch_size: int = 512
    tested: bool = field(default=False, metadata={"later": True})  # on the test images, their pixels in the same order

    def stage(self, index: int, splits: Splits, seed: int) -> Stage:
        _, height, width = splits.train.image_shape
        order = torch.randperm(height * width, generator=stream(seed, "pixels", index))
        tests = {"test": permuted(splits.test, order)} if self.tested else {}
        return Stage(permuted(splits.train, order), self.epochs, self.batch_size, tests, num_scored=NUM_SCORED)


def permuted(examples: Examples, order: torch.Tensor) -> Examples:
    """The images with their pixels in another order, the same for every image and channel."""
    images = examples.images_NCHW
    pixels = images.flatten(2).index_select(2, order.to(images.device))
    return replace(examples, images_NCHW=pixels.view_as(images))
