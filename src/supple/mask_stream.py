"""Mask stream: a random stream of one's own for the masks of a thread, in place of torch's default generator.

    with mask_stream(torch.Generator("cuda").manual_seed(0)):
        loss_fn(model(x), y).backward()

Several trainings in one process then draw the masks that each would draw alone. ``generator=`` of a function goes
before it; compiled code, which cannot carry a generator, is not reached by it. ``torch.utils.checkpoint``, which
restores torch's default generators alone when it computes a forward again, is refused.
"""

import contextlib
import sys
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


def source_of_masks(generator: torch.Generator | None) -> torch.Generator | None:
    """The generator that was passed, else this thread's stream; None: torch's default generator."""
    source = CURRENT.generator if generator is None else generator
    if source is not None and is_checkpointed():
        raise RuntimeError(
            "masks of mask_stream and generator= cannot be drawn inside torch.utils.checkpoint, which would draw "
            "others when it computes the forward again; seed with torch.manual_seed instead, which it restores."
        )
    return source


def is_checkpointed() -> bool:
    """Whether torch.utils.checkpoint makes this call, with or without use_reentrant, first or again."""
    # One of the three is true in there and none in a plain training step, which is spared the walk: 7 us at 30 frames.
    no_grad, in_backward = not torch.is_grad_enabled(), torch._C._current_graph_task_id() != -1
    if not (no_grad or in_backward or torch._C._autograd._top_saved_tensors_default_hooks(True)):
        return False
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__") != "torch.utils.checkpoint":
        frame = frame.f_back
    return frame.f_back is not None


def becomes_graph(x: Tensor) -> bool:
    """Whether this very call on x is being traced or compiled, so that no generator can be carried along.

    torch's own answer is the process's: it is yes in every thread while one of them exports, where x is a plain tensor.
    """
    if not torch.compiler.is_compiling():
        return False
    return torch.compiler.is_dynamo_compiling() or type(x) not in (Tensor, nn.Parameter)
