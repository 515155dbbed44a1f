"""Random streams: torch's default generators, a thread's masks, streamed or held, and those that a reading moves on.

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


GOLDEN, FIRST, SECOND = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15  # of splitmix64, as int64
UINT64 = 2**64 - 1
HELD: "list[HeldMasks]" = []  # of all threads, for compiled code, which cannot read what belongs to a thread


def mix_(z: Tensor) -> Tensor:
    """The finalizer of splitmix64 (Steele et al. 2014), in place: 64 bits to 64 others; products wrap around."""
    z ^= (z >> 30).bitwise_and_(0x3FFFFFFFF)  # int64 shifts its sign in
    z *= FIRST
    z ^= (z >> 27).bitwise_and_(0x1FFFFFFFFF)
    z *= SECOND
    z ^= (z >> 31).bitwise_and_(0x1FFFFFFFF)
    return z


def mixed(z: int) -> int:
    """``mix_`` of one number, as int64 has it."""
    z &= UINT64
    z = (z ^ z >> 30) * FIRST & UINT64
    z = (z ^ z >> 27) * SECOND & UINT64
    z ^= z >> 31
    return z - (z >> 63 << 64)


class HeldMasks:
    """Uniform numbers by a seed, the number of a sample, the place of the draw in the forward, and the element."""

    def __init__(self, samples: Tensor, seed: int) -> None:
        if not isinstance(samples, Tensor) or samples.dim() != 1 or samples.is_floating_point():
            raise TypeError(f"held_masks needs the numbers of the samples, a vector of integers; got {samples!r:.80}.")
        self.samples_B = samples.long().clone(memory_format=torch.contiguous_format)
        self.num_drawn, self.place = 0, mixed(int(seed))

    def draw(self, x: Tensor) -> tuple[Tensor, int]:
        """The numbers of the samples on x's device, and that of the next draw's place in the forward."""
        if x.dim() == 0 or len(x) != len(self.samples_B):
            raise ValueError(
                f"held_masks was given {len(self.samples_B)} samples, and an activation sees a tensor of shape "
                f"{tuple(x.shape)}: its first dimension must be the samples."
            )
        self.num_drawn += 1
        self.place = mixed(self.place + self.num_drawn)
        return self.samples_B.to(x.device), self.place

    def uniform_like(self, x: Tensor) -> Tensor:
        """In float64 and the shape of x, whose first dimension is that of the samples."""
        samples_B, place = self.draw(x)
        elements_E = torch.arange(x.numel() // max(len(x), 1), device=x.device) * GOLDEN
        bits = mix_((samples_B * FIRST + place)[:, None] + elements_E)
        bits = bits.bitwise_right_shift_(11).bitwise_and_(0x1FFFFFFFFFFFFF)
        return bits.view(x.shape).double().mul_(2.0**-53)


class Current(threading.local):
    """What this thread draws from; None: torch's default generator."""

    generator: "torch.Generator | HeldMasks | None" = None


CURRENT = Current()


@contextlib.contextmanager
def mask_stream(generator: torch.Generator | None) -> Iterator[None]:
    """While open, masks of this thread are drawn from the generator; None: torch's default one."""
    before, CURRENT.generator = CURRENT.generator, generator
    try:
        yield
    finally:
        CURRENT.generator = before


@contextlib.contextmanager
def held_masks(samples: Tensor, *, seed: int = 0) -> Iterator[None]:
    """While open, for one forward, masks are a function of the seed and of each sample's number, and draw nothing.

    A forward on the same samples, in any order and in any batch, has the same masks if its activations come in the same
    order. PPO needs this (consistent dropout, Hausknecht & Wagener 2022): the ratio of its update compares two forwards
    of a sample. ``samples`` has one integer for each row of the batch. AID, IntervalDropout, DropReLU, ReLUDropout,
    NormAID and LeakyDropout are held. A forward compiled by torch.compile is refused.
    """
    held = HeldMasks(samples, seed)
    before, CURRENT.generator = CURRENT.generator, held
    HELD.append(held)
    try:
        yield
    finally:
        CURRENT.generator = before
        HELD.remove(held)


def generator_of_masks() -> torch.Generator | None:
    """This thread's stream, for activations whose draws cannot be held."""
    source = source_of_masks(None)
    if isinstance(source, HeldMasks):
        raise TypeError(
            "held_masks serves AID, IntervalDropout, DropReLU, ReLUDropout, NormAID and LeakyDropout; "
            "another activation draws."
        )
    return source


def source_of_masks(generator: torch.Generator | None) -> "torch.Generator | HeldMasks | None":
    """The generator that was passed, else what this thread draws from; None: torch's default generator."""
    source = CURRENT.generator if generator is None else generator
    if source is not None and is_checkpointed():
        raise RuntimeError(NOT_HELD_AGAIN if isinstance(source, HeldMasks) else NOT_DRAWN_AGAIN)
    return source


NOT_DRAWN_AGAIN = (
    "masks of mask_stream and generator= cannot be drawn inside torch.utils.checkpoint, which would draw "
    "others when it computes the forward again; seed with torch.manual_seed instead, which it restores."
)
NOT_HELD_AGAIN = (
    "masks cannot be held inside torch.utils.checkpoint, which computes the forward again in the backward, "
    "when held_masks is closed; turn checkpointing off."
)


# Whether tensors that are saved for backward pass through hooks now; torch 2.6 cannot say.
has_hooks = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", lambda _: True)


def is_checkpointed() -> bool:
    """Whether torch.utils.checkpoint makes this call, with or without use_reentrant, first or again."""
    # One of the three is true in there and none in a plain training step, which is spared the walk: 7 us at 30 frames.
    no_grad, in_backward = not torch.is_grad_enabled(), torch._C._current_graph_task_id() != -1
    if not (no_grad or in_backward or has_hooks(True)):
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

    def rewind_(self) -> None:
        """Set every stream back."""
        torch.set_rng_state(self.torch_state)
        random.setstate(self.python_state)
        if self.numpy:
            self.numpy.random.set_state(self.numpy_state)
