"""Stage data: what a library trains on, read once more for a method without the training noticing."""

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from supple.batch import Batch, described
from supple.conversion.random_streams import RandomStreams
from supple.loader_generators import kept_loader_generators

AsBatch = Callable[[Any], Batch]


class StageData:
    """The batches of a data loader as pairs of inputs and targets; can be read any number of times."""

    def __init__(self, loader: Any, as_batch: AsBatch) -> None:
        # What accelerate wraps around a loader tells the whole process how far the training has come.
        self.loader = getattr(loader, "base_dataloader", loader)
        self.as_batch = as_batch

    def __iter__(self) -> Iterator[Batch]:
        with undisturbed(self.loader):
            loader = copy.copy(self.loader)
            if getattr(loader, "_iterator", None) is not None:
                # Workers that persist serve one reader at a time, and the training may be in the midst of an epoch.
                loader._iterator = None
            for batch in loader:
                yield self.as_batch(batch)


def pair(batch: Any) -> Batch:
    """Inputs and targets of a batch that is a pair of tensors, as most are; the default of every adapter."""
    if isinstance(batch, (tuple, list)) and len(batch) == 2 and isinstance(batch[1], Tensor):
        inputs = tuple(batch[0]) if isinstance(batch[0], list) else batch[0]
        return inputs, batch[1]
    raise TypeError(
        "this method reads the data of a stage as pairs of inputs and targets; a batch here is "
        f"{described(batch)}. Say how to make a pair of it: as_batch=lambda batch: (batch['image'], batch['label'])."
    )


@contextlib.contextmanager
def undisturbed(loader: Any = None) -> Iterator[None]:
    """Set back, at the end, all that reading a loader or drawing a mask moves on: shuffles and masks stay as they were.

    These are the default generators of torch (every GPU's too), Python and numpy, and the loader's own.
    """
    streams = RandomStreams()
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    try:
        with kept_loader_generators(loader):
            yield
    finally:
        streams.rewind_()
        if gpus:
            torch.cuda.set_rng_state_all(gpus)
