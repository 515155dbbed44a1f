"""Interval-wise dropout on an NVIDIA GPU: one Triton pass forward, one pass backward, nothing kept but the output."""

import functools
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

from supple.kernels.base import Intervals, Kernel
from supple.kernels.cuda_seed import OFFSET_STEP, CudaSeeds, serves
from supple.kernels.launch import Launch, direct_launch
from supple.kernels.layout import has_memory
from supple.kernels.node import load_node
from supple.kernels.reference import ReferenceKernel
from supple.kernels.triton_programs import OWN_BITS, SHARED_BITS, drop_kernel, gate_kernel

# The best of nine forward and seven backward shapes on an H200 (torch 2.11, Triton 3.6, medians of 50), by the time of
# forward and backward of 2**20 elements in a graph of 4 layers; 2**28 elements ran within 3% of the best alike.
GROUPS, DROP_WARPS = 256, 4  # Philox calls of one program of the forward, eight elements each
BLOCK, GATE_WARPS = 2048, 8  # elements of one program of the backward
# Elements up to which a program in a graph starts while the one before it ends: that took 8% (float32) and 13%
# (bfloat16) off such a graph at 2**20, and nothing at 2**24.
OVERLAP_MAX = 2**22
HARDSHRINK_BACKWARD = torch.ops.aten.hardshrink_backward
MOST_LAUNCHES = 1024  # laws, about a kilobyte each: a p that changes at every step makes a new one every time


class TritonKernel(Kernel):
    """Serves every CUDA device. Dense tensors, channels_last too, are walked in memory order without a copy."""

    name = "triton"

    def __init__(self) -> None:
        self.seeds: dict[int, CudaSeeds] = {}
        self.compiled: dict[Hashable, Any] = {}
        self.launches: dict[tuple[Intervals, torch.dtype, int], Launch | None] = {}
        self.node, self.why_node = load_node()
        self.reference = ReferenceKernel()

    def drop(self, x: Tensor, intervals: Intervals, *, generator: torch.Generator | None, out: Tensor | None) -> Tensor:
        if generator is not None and not serves(generator.device, x.device):
            raise ValueError(f"generator= must be of the input's device, {x.device}; got one of {generator.device}.")
        y = torch.empty_like(x) if out is None or not is_dense(out) else out
        if (not (x.is_contiguous() and y.is_contiguous()) and y.stride() != x.stride()) or not has_memory(x):
            x = y.copy_(x)
        if not self._launch_directly(x, y, intervals, generator) and x.numel() > 0:
            on_device_of(x, self._launch_drop, x, y, intervals, generator)
        return y if out is None or out is y else out.copy_(y)

    def drop_in_node(
        self, x: Tensor, intervals: Intervals, generator: torch.Generator | None, inplace: bool
    ) -> Tensor | None:
        index = x.get_device()
        launch = self.launches.get((intervals, x.dtype, index))
        if launch is None or launch.node is None or not is_eager_on(index):
            return None
        if generator is not None and not serves(generator.device, x.device):
            return None
        source = self.seeds[index].generator if generator is None else generator
        return launch.node(x, source, torch._C._cuda_getCurrentRawStream(index), inplace)

    def _launch_directly(self, x: Tensor, y: Tensor, intervals: Intervals, generator: torch.Generator | None) -> bool:
        """Launch what was compiled for such a call before; whether there is such a program and the driver took it."""
        index, numel, source_at, result_at = x.get_device(), x.numel(), x.data_ptr(), y.data_ptr()
        launch = self.launches.get((intervals, x.dtype, index))
        if launch is None or numel == 0 or (source_at | result_at) & 15 or not is_eager_on(index):
            return False
        source = self.seeds[index].generator if generator is None else generator
        seed, offset = source.initial_seed(), source.get_offset()
        stream = torch._C._cuda_getCurrentRawStream(index)
        if not launch(stream, source_at, result_at, numel, seed, offset):
            return False
        source.set_offset(offset + OFFSET_STEP)
        return True

    def gate(self, grad: Tensor, y: Tensor, scale: float, at_zero: float = 0.0) -> Tensor:
        fused = scale != 1.0 or at_zero != 0.0 or torch.cuda.is_current_stream_capturing()
        if fused and grad.stride() == y.stride() and y.numel() > 0 and is_dense(y) and has_memory(grad):
            out = torch.empty_like(grad)
            on_device_of(y, self._launch_gate, grad, y, out, scale, at_zero)
            return out
        if at_zero != 0.0:
            return self.reference.gate(grad, y, scale, at_zero)
        gated = aten_gate(grad, y)
        return gated if scale == 1.0 else gated.mul_(scale)

    def _launch_drop(self, x: Tensor, y: Tensor, intervals: Intervals, generator: torch.Generator | None) -> None:
        start, numel = self._seeds_of(x).start(generator), x.numel()
        edges, rates, scaled, marked = plan(intervals, x.dtype)
        overlap = start.slot is not None and can_overlap(x)
        bits = (start.seed, start.stream, start.slot)
        told = (x, y, numel, *bits, rates, intervals.scale, edges, scaled, marked, GROUPS, overlap)
        key = (x.dtype, edges, scaled, marked, start.slot is None, overlap)
        compiled = self._launch(drop_kernel, told, key, num_programs=-(-numel // (8 * GROUPS)), num_warps=DROP_WARPS)
        law = (intervals, x.dtype, x.get_device())
        if law not in self.launches and start.slot is None and (x.data_ptr() | y.data_ptr()) & 15 == 0:
            self._note_launch(law, compiled, rates)

    def _note_launch(self, law: tuple[Intervals, torch.dtype, int], compiled: Any, rates: tuple[float, ...]) -> None:
        """Have calls of this law launch the program directly from now on, if that can be."""
        intervals, dtype, _ = law
        constants = [*(("f32", rate) for rate in rates), ("f64", intervals.scale)]
        launch = direct_launch(compiled, constants, elements=8 * GROUPS)
        node, _ = load_node()
        if launch is not None and node is not None and intervals.slope_at_zero(dtype) == 0.0:
            launch.node = node.CudaProgram(intervals.scale, *launch.addresses(), *launch.shape(), launch.constants)
        if len(self.launches) >= MOST_LAUNCHES:
            self.launches.clear()
        self.launches[law] = launch

    def _launch_gate(self, grad: Tensor, y: Tensor, out: Tensor, scale: float, at_zero: float) -> None:
        numel, overlap = y.numel(), torch.cuda.is_current_stream_capturing() and can_overlap(y)
        marked = at_zero != 0.0
        told = (grad, y, out, numel, scale, at_zero, marked, BLOCK, overlap)
        key = (grad.dtype, y.dtype, marked, overlap)
        self._launch(gate_kernel, told, key, num_programs=-(-numel // BLOCK), num_warps=GATE_WARPS)

    def _launch(self, program: Any, told: tuple[Any, ...], key: Hashable, *, num_programs: int, num_warps: int) -> Any:
        """Launch what was compiled for this key. Triton's own search for it took 15 us a call on an H200's host."""
        aligned = tuple(argument.data_ptr() % 16 == 0 for argument in told[:3] if isinstance(argument, Tensor))
        full_key = (program, told[0].get_device(), key, aligned)
        compiled = self.compiled.get(full_key)
        if compiled is None:
            overlap = told[-1]
            compiled = program[(num_programs,)](*told, num_warps=num_warps, launch_pdl=overlap)
            self.compiled[full_key] = compiled
        else:
            compiled[(num_programs, 1, 1)](*told)
        return compiled

    def _seeds_of(self, x: Tensor) -> CudaSeeds:
        index = x.get_device()
        if index not in self.seeds:
            self.seeds[index] = CudaSeeds(x.device)
        return self.seeds[index]


def aten_gate(grad: Tensor, y: Tensor) -> Tensor:
    """The gate over any strides, as ATen's backward of hardshrink at 0: 0 where |y| <= 0, the gradient elsewhere."""
    # In eager mode its launch costs less than a Triton program's, and it is one vectorised pass like it.
    if grad.stride() == y.stride():
        return HARDSHRINK_BACKWARD.default(grad, y, 0.0)
    return HARDSHRINK_BACKWARD.grad_input(grad, y, 0.0, grad_input=torch.empty_like(grad))


def is_eager_on(index: int) -> bool:
    """Whether this device is the current one, and its current stream is not being captured."""
    # What torch.cuda's functions come down to once CUDA runs, as it does where there is a CUDA tensor.
    return torch._C._cuda_getDevice() == index and not torch._C._cuda_isCurrentStreamCapturing()


def on_device_of(x: Tensor, act: Callable[..., None], *arguments: Any) -> None:
    """Act while x's device is the current one, which is where Triton launches."""
    if torch.cuda.current_device() == x.get_device():
        act(*arguments)
    else:
        with torch.cuda.device(x.device):
            act(*arguments)


def can_overlap(x: Tensor) -> bool:
    """Whether programs on x may overlap in a graph: since Hopper, and worth it only where their start is felt."""
    return x.numel() <= OVERLAP_MAX and compute_capability(x.get_device()) >= (9, 0)


@functools.cache
def compute_capability(index: int) -> tuple[int, int]:
    """The GPU's generation; 9.0 is Hopper."""
    return torch.cuda.get_device_capability(index)


def is_dense(x: Tensor) -> bool:
    """Whether x fills one stretch of memory, in whatever order of its dimensions."""
    # torch keeps the strides of such a tensor when it makes another like it, and of no other tensor.
    return x.is_contiguous() or torch.empty_like(x, device="meta").stride() == x.stride()


@functools.lru_cache(maxsize=1024)
def plan(intervals: Intervals, dtype: torch.dtype) -> tuple[tuple[float, ...], tuple[float, ...], bool, bool]:
    """What a program is told: edges rounded to the dtype as torch's comparisons do, keep rates in two parts, flags."""
    edges = tuple(torch.tensor(intervals.edges, dtype=torch.float64).to(dtype).tolist())
    rates: list[float] = []
    for rate in intervals.drop:
        own, shared = divmod(round((1.0 - rate) * 2 ** (OWN_BITS + SHARED_BITS)), 2**SHARED_BITS)
        rates += [float(own), float(shared)]
    return edges, tuple(rates), intervals.scale != 1.0, intervals.slope_at_zero(dtype) != 0.0


def why_not(device: torch.device) -> str | None:
    """Why Triton cannot serve this device, or None: asked once, by running its programs there."""
    if torch.version.hip is not None:
        return "AMD GPUs are not served by it"
    if torch.cuda.is_current_stream_capturing():  # a trial would become part of the user's graph
        return None
    kernel, one, generator = TritonKernel(), torch.ones(1, device=device), torch.Generator(device)
    try:
        for _ in range(2):  # compiled and launched by Triton, then launched again by its handle
            kernel.gate(one, kernel.drop(one, Intervals((0.0,), (0.5, 0.5)), generator=generator, out=None), 2.0)
    except Exception as error:  # a compiler, a linker and a driver are behind these calls, each with its own errors
        return f"Triton cannot run here: {type(error).__name__}: {error}"
    return None
