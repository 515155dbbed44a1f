"""The generators that a data loader shuffles by: as they were, after a method has read the data once more."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


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
