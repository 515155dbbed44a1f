"""Chunks: a training set cut into equal parts at random, the same for all methods of a seed."""

import torch
from torch import Tensor

from supple_lab.data.base import Facts
from supple_lab.scenarios.base import Unsuitable
from supple_lab.streams import stream


def chunk_bounds(num_images: int, num_chunks: int) -> list[int]:
    """Where each chunk begins, and where the last one ends; sizes differ by one at most."""
    return [num_images * k // num_chunks for k in range(num_chunks + 1)]


def chunk_order(num_images: int, seed: int) -> Tensor:
    """The order of the images before they are cut."""
    return torch.randperm(num_images, generator=stream(seed, "chunks"))


def check_chunks(num_chunks: int, facts: Facts, *, field: str) -> None:
    """Refuse more chunks than images."""
    if num_chunks > facts.num_train:
        raise Unsuitable(f"{field} is {num_chunks}, but the dataset has {facts.num_train} training images to share.")
