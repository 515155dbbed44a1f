"""Random streams: torch's default generators, a thread's own stream of masks, and those that a reading moves on.

All threads share torch's default generators. A thread that sets them back while another draws from them takes back
what that one drew. So whatever draws a network from them, sets them back or asks whether they moved does so inside
`kept_default_generators`, or holds its lock. Masks, drawn at every step, have streams of their own (`mask_stream`).
Conversions and adapters belong to one training and need no lock.
"""

import contextlib
import random
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

ONE_AT_A_TIME = threading.RLock()  # reentrant: what draws a network may look at it before it is done


@contextlib.contextmanager
def kept_default_generators(gpus: Iterable[int] = ()) -> Iterator[None]:
    """While open, those of the CPU and of these GPUs are this thread's alone; afterwards they are as they were."""
    with ONE_AT_A_TIME, torch.random.fork_rng(devices=sorted(gpus)):
        yield


class Current(threading.local):
    """What this thread draws from; None: torch's default generator."""

    generator: torch.Generator | None = None


CURRENT = Current()


@contextlib.contextmanager
def mask_stream(generator: torch.Generator | None) -> Iterator[None]:
    """While open, masks of this thread are drawn from the generator; None: torch's default one."""
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


class RandomStreams:
    """The states of torch's, Python's and numpy's default generators as they are now."""

    def __init__(self) -> None:
        self.numpy: Any = sys.modules.get("numpy")
        self.torch_state = torch.get_rng_state()
        self.python_state = random.getstate()
        self.numpy_state: Any = self.numpy and self.numpy.random.get_state()

    def rewind_(self) -> bool:
        """Set every stream back; whether any had moved."""
        now = RandomStreams()
        torch.set_rng_state(self.torch_state)
        random.setstate(self.python_state)
        if self.numpy:
            self.numpy.random.set_state(self.numpy_state)
        return not self.equals(now)

    def equals(self, other: "RandomStreams") -> bool:
        """Whether every stream is at the same point."""
        if not torch.equal(self.torch_state, other.torch_state) or self.python_state != other.python_state:
            return False
        return not self.numpy or all(map(self.numpy.array_equal, self.numpy_state, other.numpy_state))
