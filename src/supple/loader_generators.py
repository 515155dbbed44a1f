"""The generators that reading a data loader moves on: as they were, after a method has read the data once more."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from supple.default_generator import kept_default_generators
from supple.mask_stream import CURRENT


@contextlib.contextmanager
def undisturbed_reading(data: Any, device: torch.device) -> Iterator[None]:
    """While open, the data may be read and masks drawn on the device; afterwards the random streams are as they were.

    Torch's default generators are left to the other threads where this one's masks have a stream of their own
    (mask_stream): such trainings share a process, and have their data in an order of their own, too.
    """
    gpus = [device.index] if device.type == "cuda" else []
    shares = CURRENT.generator is not None
    with kept_loader_generators(data), contextlib.nullcontext() if shares else kept_default_generators(gpus):
        yield


@contextlib.contextmanager
def kept_loader_generators(loader: Any) -> Iterator[None]:
    """While open, the loader may be read; afterwards its next order is the one it would have given."""
    kept = [(generator, generator.get_state()) for generator in generators_of(loader)]
    try:
        yield
    finally:
        for generator, state in kept:
            generator.set_state(state)


def generators_of(loader: Any) -> list[torch.Generator]:
    """The generators of a data loader and of its samplers."""
    parts = [loader, getattr(loader, "sampler", None), getattr(getattr(loader, "batch_sampler", None), "sampler", None)]
    found = [getattr(part, "generator", None) for part in parts]
    return [generator for generator in dict.fromkeys(found) if isinstance(generator, torch.Generator)]
