"""Where a GPU kernel's random bits start: torch's CUDA generator, read on the host, or drawn inside a captured graph.

In eager mode a call takes the generator's seed and offset and moves the offset on, as torch's own kernels do: no
launch, and ``torch.manual_seed``, saved states and checkpointing work. A captured graph would replay such numbers for
ever, so there the seed is a value in device memory, drawn again by every replay; all calls of one capture share that
draw, each with a stream of its own. If a capture holds several steps, the caller says where each begins, and
masks are those of as many graphs of one step.
"""

import ctypes
import functools
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

# Captures take seed slots in turn, one for each stream and generator they draw on. A graph shares its slot with another
# one only if the process drew this many seeds for captures between the two, and that matters only while both replay at
# the same time: 31 runs beside it that each capture graphs of 2,000 steps in all draw 62,000. They take 512 KiB.
# A slot in the graph's own memory would end with the graph, but something must hold it while the capture lasts, and
# nothing reports when that ends: what is still held then, torch's own graph trees take for a leak.
NUM_SLOTS = 2**16
# torch counts Philox offsets in fours; one such step a call is enough where the element's index is in the counter too.
OFFSET_STEP = 4


class CapturedStep(threading.local):
    """Which step this thread is capturing."""

    number: int = 0


CAPTURED_STEP = CapturedStep()


def begin_captured_step() -> None:
    """Have what this thread captures from here on draw a seed of its own."""
    CAPTURED_STEP.number += 1


@dataclass(slots=True)
class Start:
    """A Philox key and the stream under it; ``slot`` holds the key instead of ``seed`` inside a captured graph."""

    seed: int
    stream: int
    slot: Tensor | None = None


@dataclass(slots=True)
class Draw:
    """One seed of one capture: where it lies, how many streams have been taken, and the generator it came from."""

    slot: Tensor
    generator: torch.Generator | None
    num_streams: int = 0


class CudaSeeds:
    """The starts of one GPU, one per call."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.generator = torch.cuda.default_generators[device.index]
        # In a thread of its own: a graph, and its rehearsal too, take the memory of their thread from a pool in which
        # no tensor may outlive them.
        with ThreadPoolExecutor(1) as thread:
            self.slots = thread.submit(empty_slots, device).result()
        self.num_draws = 0
        self.capture: int | None = None
        self.draws: dict[tuple[int, int, int], Draw] = {}

    def start(self, generator: torch.Generator | None) -> Start:
        """The start of the next call, from the device's own generator or from the one passed."""
        if torch.cuda.is_current_stream_capturing():
            return self._captured_start(generator)
        source = self.generator if generator is None else generator
        offset = source.get_offset()
        source.set_offset(offset + OFFSET_STEP)
        return Start(signed(source.initial_seed()), offset)

    def _captured_start(self, generator: torch.Generator | None) -> Start:
        stream = torch.cuda.current_stream(self.device).cuda_stream
        capture = capture_id(stream)
        if capture is None or capture != self.capture:
            self.capture, self.draws = capture, {}
        # A second stream of the same capture need not wait for the first one's draw, so it makes its own.
        key = (stream, id(generator), CAPTURED_STEP.number)
        if key not in self.draws:
            self.draws[key] = self._draw(generator)
        draw = self.draws[key]
        draw.num_streams += 1
        return Start(0, draw.num_streams, draw.slot)

    def _draw(self, generator: torch.Generator | None) -> Draw:
        index = self.num_draws % NUM_SLOTS
        self.num_draws += 1
        return Draw(self.slots[index : index + 1].random_(generator=generator), generator)


def serves(generator: torch.device, device: torch.device) -> bool:
    """Whether a generator of one device may draw for a tensor of the other; one of "cuda" alone serves every GPU."""
    return generator in (device, torch.device(device.type))


def empty_slots(device: torch.device) -> Tensor:
    """Room for seeds on a GPU."""
    return torch.empty(NUM_SLOTS, dtype=torch.int64, device=device)


def signed(seed: int) -> int:
    """An unsigned 64-bit seed as the signed integer of the same bits, which a kernel argument can carry."""
    return seed - (1 << 64) if seed >> 63 else seed


def capture_id(stream: int) -> int | None:
    """The number CUDA gives the capture under way on a stream, unique in the process; None if it cannot be asked."""
    query = _capture_query()
    if query is None:
        return None
    status, number = ctypes.c_int(), ctypes.c_uint64()
    failed = query(ctypes.c_void_p(stream), ctypes.byref(status), ctypes.byref(number), None, None, None)
    return None if failed else number.value


@functools.cache
def _capture_query() -> "ctypes._NamedFuncPointer | None":
    # torch says whether a stream is being captured, not which capture it is. The driver's entry point does; under
    # this name its arguments cannot change. Without it every call draws its own seed: slower, and still correct.
    try:
        return ctypes.CDLL("libcuda.so.1").cuStreamGetCaptureInfo_v2
    except (OSError, AttributeError):
        return None
