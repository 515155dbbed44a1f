"""Mask stream: a random stream of one's own for the masks of a thread, in place of torch's default generator.

    with mask_stream(torch.Generator("cuda").manual_seed(0)):
        loss_fn(model(x), y).backward()

Several trainings in one process then draw the masks that each would draw alone. ``generator=`` of a function goes
before it; compiled code, which cannot carry a generator, is not reached by it.
"""

import contextlib
import threading
from collections.abc import Iterator

import torch
from torch import Tensor, nn


class Current(threading.local):
    """What this thread draws from; None: torch's default generator."""

    generator: torch.Generator | None = None


CURRENT = Current()


@contextlib.contextmanager
def mask_stream(generator: torch.Generator) -> Iterator[None]:
    """While open, masks of this thread are drawn from the generator."""
    before, CURRENT.generator = CURRENT.generator, generator
    try:
        yield
    finally:
        CURRENT.generator = before


def becomes_graph(x: Tensor) -> bool:
    """Whether this very call on x is being traced or compiled, so that no generator can be carried along.

    torch's own answer is the process's: it is yes in every thread while one of them exports, where x is a plain tensor.
    """
    if not torch.compiler.is_compiling():
        return False
    return torch.compiler.is_dynamo_compiling() or type(x) not in (Tensor, nn.Parameter)
