"""The fused CPU kernel: finds the library compiled from C, lends it torch's threads, and calls it."""

import ctypes
import functools
import hashlib
import math
import os
import sys
import threading
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from supple.kernels.base import Intervals, Kernel
from supple.kernels.layout import BITS, has_memory, is_dense, is_flat, share_layout
from supple.kernels.node import load_node
from supple.kernels.reference import ReferenceKernel
from supple.random import HeldMasks

SOURCES = [Path(__file__).with_name(name) for name in ("cpu.c", "held.c", "pool.h", "renewal.c")]
LIBRARY = Path(__file__).with_name("libsupple.so")

CODES = {dtype: code for code, dtype in enumerate(BITS)}  # the enum of cpu.c

POINTER, INT, LONG = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
FLOAT, DOUBLE = ctypes.c_float, ctypes.c_double
SIGNATURES = {
    "supple_source": ([], ctypes.c_char_p),
    "supple_most_intervals": ([], INT),
    "supple_best_level": ([], INT),
    "supple_level_name": ([INT], ctypes.c_char_p),
    "supple_use_level": ([INT], None),
    "supple_use_pool": ([POINTER] * 3, None),
    "supple_law_size": ([], INT),
    "supple_prepare": ([POINTER, INT, POINTER, POINTER, INT, DOUBLE, DOUBLE], None),
    "supple_drop": ([POINTER, POINTER, LONG, POINTER, POINTER, INT], None),
    "supple_gate": ([POINTER, POINTER, POINTER, LONG, POINTER, INT, INT], None),
    "supple_drop_held": ([POINTER] * 2 + [LONG] * 2 + [POINTER, LONG] + [POINTER] * 2 + [INT, DOUBLE, INT], None),
    "supple_pack_squares": ([POINTER] * 2 + [LONG] + [POINTER] * 2, LONG),
    "supple_take_own_steps": ([POINTER] * 2 + [LONG] + [POINTER] * 5 + [LONG, DOUBLE, DOUBLE, INT], None),
    "supple_rate_units": (
        [POINTER] * 2 + [FLOAT, POINTER, FLOAT, POINTER, LONG, POINTER, LONG, DOUBLE, LONG, DOUBLE, LONG],
        LONG,
    ),
    "supple_renew": ([POINTER] * 3 + [LONG], None),
}


class NoLibraryError(Exception):
    """There is no compiled library; the message says what to do."""


class BrokenLibraryError(NoLibraryError):
    """There is a compiled library, and it does not serve."""


class CpuKernel(Kernel):
    """One pass forward and one backward in C; what the library does not know goes to the reference."""

    name = "fused C kernel"

    def __init__(self) -> None:
        self.library = load_library()
        self.has_pool = lend_threads(self.library)
        self.level = self.library.supple_best_level()
        self.library.supple_use_level(self.level)
        self.c_drop, self.c_gate = self.library.supple_drop, self.library.supple_gate
        self.law_of = functools.lru_cache(maxsize=256)(self.prepare)
        self.node, self.why_node = load_node()
        self.node_of = functools.lru_cache(maxsize=256)(self.make_node)
        self.seed = ThreadSeed()
        self.reference = ReferenceKernel()

    def detail(self) -> str:
        """The instruction set it runs on, why no better one, and whose threads."""
        level = self.library.supple_level_name(self.level).decode()
        missing = {"x86-64-v3": " as this CPU has no AVX-512", "baseline": " as this CPU has no AVX2"}.get(level, "")
        threads = "torch's threads" if self.has_pool else "one thread as torch has no OpenMP"
        return f"{level}{missing}, {threads}; {self.why_node}"

    def drop(self, x: Tensor, intervals: Intervals, *, generator: torch.Generator | None, out: Tensor | None) -> Tensor:
        if not is_flat(x) or (out is not None and out is not x):
            return self.drop_strided(x, intervals, generator=generator, out=out)
        law = self.law_of(intervals.edges, intervals.drop, intervals.scale, x.dtype)
        if law is None:
            return self.reference.drop(x, intervals, generator=generator, out=out)
        y = torch.empty_like(x) if out is None else out
        self.c_drop(y.data_ptr(), x.data_ptr(), x.numel(), law, self.seed.draw(generator), torch.get_num_threads())
        return y

    def drop_held(self, x: Tensor, intervals: Intervals, held: HeldMasks, out: Tensor | None) -> Tensor | None:
        serves = x.dtype == torch.float32 and is_flat(x) and (out is None or out is x)
        if not serves or intervals.slope_at_zero(x.dtype) != 0.0:
            return None
        samples_B, place = held.draw(x)
        y = torch.empty_like(x) if out is None else out
        shape = len(x), x.numel() // max(len(x), 1)
        law = *held_law(intervals.edges, intervals.drop), len(intervals.drop), intervals.scale
        pointers = y.data_ptr(), x.data_ptr(), *shape, samples_B.data_ptr(), place
        self.library.supple_drop_held(*pointers, *law, torch.get_num_threads())
        return y

    def drop_in_node(
        self, x: Tensor, intervals: Intervals, generator: torch.Generator | None, inplace: bool
    ) -> Tensor | None:
        node = self.node_of(intervals, x.dtype)
        return None if node is None else node(x, generator, 0, inplace)

    def make_node(self, intervals: Intervals, dtype: torch.dtype) -> Any:
        """The law as the node in C++ takes it; None if the gate needs a slope at 0, or the library does not know it."""
        edges, rates, scale = intervals
        law, gate_law = self.law_of(edges, rates, scale, dtype), self.law_of((), (0.0,), scale, dtype, 0.0)
        if law is None or gate_law is None or intervals.slope_at_zero(dtype) != 0.0:
            return None
        addresses = (ctypes.cast(function, POINTER).value for function in (self.c_drop, self.c_gate))
        return self.node.CpuProgram(scale, *addresses, law.raw, gate_law.raw)

    def drop_strided(
        self, x: Tensor, intervals: Intervals, *, generator: torch.Generator | None, out: Tensor | None
    ) -> Tensor:
        """What has no gaps is walked over in memory order; what has some is copied first."""
        numbers = intervals.edges, intervals.drop, intervals.scale
        law = self.law_of(*numbers, x.dtype) if has_memory(x) else None
        if law is None:
            return self.reference.drop(x, intervals, generator=generator, out=out)
        if out is not None and not (out is x and is_dense(x)):
            return out.copy_(self.drop(x, intervals, generator=generator, out=None))
        y = torch.empty_like(x) if out is None else out
        x = x if share_layout(x, y) else y.copy_(x)
        self.c_drop(y.data_ptr(), x.data_ptr(), x.numel(), law, self.seed.draw(generator), torch.get_num_threads())
        return y

    def gate(self, grad: Tensor, y: Tensor, scale: float, at_zero: float = 0.0) -> Tensor:
        if not is_flat(grad) or not is_flat(y) or grad.shape != y.shape or grad.dtype != y.dtype:
            return self.gate_strided(grad, y, scale, at_zero)
        law = self.law_of((), (0.0,), scale, y.dtype, at_zero)
        if law is None:
            return self.reference.gate(grad, y, scale, at_zero)
        out = torch.empty_like(grad)
        pointers = out.data_ptr(), grad.data_ptr(), y.data_ptr()
        self.c_gate(*pointers, out.numel(), law, False, torch.get_num_threads())
        return out

    def gate_strided(self, grad: Tensor, y: Tensor, scale: float, at_zero: float) -> Tensor:
        """The result lies as grad does, if grad has no gaps; what lies otherwise is copied first."""
        alike = has_memory(grad) and has_memory(y) and grad.shape == y.shape and grad.dtype == y.dtype
        law = self.law_of((), (0.0,), scale, y.dtype, at_zero) if alike else None
        if law is None:
            return self.reference.gate(grad, y, scale, at_zero)
        out = torch.empty_like(grad)
        y = y if share_layout(y, out) else torch.empty_like(out).copy_(y)
        # sum() sends back one number, expanded with no memory behind it.
        broadcast = grad.numel() > 1 and not any(grad.stride()) and not grad.is_neg()
        if not broadcast and not share_layout(grad, out):
            grad = out.copy_(grad)
        pointers = out.data_ptr(), grad.data_ptr(), y.data_ptr()
        self.c_gate(*pointers, out.numel(), law, broadcast, torch.get_num_threads())
        return out

    def prepare(
        self,
        edges: tuple[float, ...],
        rates: tuple[float, ...],
        scale: float,
        dtype: torch.dtype,
        at_zero: float | None = None,
    ) -> ctypes.Array | None:
        """The law as the library reads it, or None if it cannot; at_zero replaces the intervals' own slope at 0."""
        if dtype not in CODES or len(rates) > self.library.supple_most_intervals():
            return None
        if at_zero is None:
            at_zero = Intervals(edges, rates, scale).slope_at_zero(dtype)
        law = ctypes.create_string_buffer(self.library.supple_law_size())
        keys = edge_keys(edges, dtype)
        arrays = (LONG * len(keys))(*keys), (DOUBLE * len(rates))(*rates)
        self.library.supple_prepare(law, CODES[dtype], *arrays, len(rates), scale, at_zero)
        return law


@functools.lru_cache(maxsize=256)
def held_law(edges: tuple[float, ...], rates: tuple[float, ...]) -> tuple[ctypes.Array, ctypes.Array]:
    """Edges, and the least of 2^53 numbers that keeps an element of each interval."""
    return (FLOAT * len(edges))(*edges), (LONG * len(rates))(*(math.ceil(rate * 2**53) for rate in rates))


def edge_keys(edges: tuple[float, ...], dtype: torch.dtype) -> list[int]:
    """Edges as integers in the order of the floats: the bits, below zero minus the bits of the magnitude."""
    bits = torch.tensor(edges, dtype=dtype, device="cpu").view(BITS[dtype]).to(torch.int64)
    return torch.where(bits < 0, torch.iinfo(BITS[dtype]).min - bits, bits).tolist()


class ThreadSeed(threading.local):
    """Draws 63-bit seeds from a torch generator into a tensor made once: 4 us a call less than with a new one."""

    def __init__(self) -> None:
        with torch.inference_mode(False):  # a tensor made inside of it could not be drawn into outside
            self.tensor = torch.empty((), dtype=torch.int64, device="cpu")
        self.pointer = self.tensor.data_ptr()

    def draw(self, generator: torch.Generator | None) -> int:
        """The address of a fresh seed, which holds until this thread draws the next."""
        self.tensor.random_(generator=generator)
        return self.pointer


def load_library() -> ctypes.CDLL:
    """The compiled library with its signatures, or a NoLibraryError."""
    if sys.platform == "win32" or not LIBRARY.exists():
        raise NoLibraryError("no compiled library: install supple where there is a C compiler")
    try:
        library = ctypes.CDLL(str(LIBRARY))
        for name, (arguments, result) in SIGNATURES.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, result
    except (OSError, AttributeError) as error:
        raise BrokenLibraryError(f"the compiled library does not load: {error}") from error
    if library.supple_source().decode() != source_hash():
        raise BrokenLibraryError("the compiled library was built of other sources: install supple again")
    return library


def source_hash() -> str:
    """What setup.py builds into the library."""
    return hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()[:16]


def lend_threads(library: ctypes.CDLL) -> bool:
    """Hand over the OpenMP functions that torch itself runs on; False if it has none."""
    if sys.platform == "win32":  # for which there is no library
        return False
    # A symbol looked up through torch's extension module is found in the OpenMP library torch was linked with, whatever
    # that file is called, and in no other.
    torch_libraries = ctypes.CDLL(torch._C.__file__, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    try:
        functions = [getattr(torch_libraries, name) for name in POOL]
    except AttributeError:
        return False
    library.supple_use_pool(*(ctypes.cast(function, POINTER) for function in functions))
    return True


POOL = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
