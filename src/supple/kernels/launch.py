"""A program that Triton compiled, launched through CUDA's driver: Triton's own launcher takes several times as long.

A call fills in the first five arguments: input, output, number of elements, seed and stream. The rest is constant.
"""

import ctypes
import functools
import re
import struct
import threading
from collections.abc import Sequence
from typing import Any

NUM_OWN = 5
WORDS = struct.Struct(f"{NUM_OWN}Q")
FORMATS = {"u64": "Q", "f32": "fxxxx", "f64": "d"}  # of PTX's types in eight bytes


class Launch:
    """One compiled program with its constant arguments, each in a word of eight bytes."""

    def __init__(self, compiled: Any, constants: Sequence[int], *, elements: int) -> None:
        self.elements = elements  # that one instance of the program serves
        self.threads, self.shared = 32 * compiled.metadata.num_warps, compiled.metadata.shared
        self.function, self.constants = int(compiled.function), list(constants)
        self.words = (ctypes.c_uint64 * (NUM_OWN + len(constants)))(*[0] * NUM_OWN, *constants)
        places = [ctypes.addressof(self.words) + 8 * i for i in range(len(self.words))]
        self.arguments = (ctypes.c_void_p * len(places))(*places)
        self.one_at_a_time = threading.Lock()
        self.call = launch_kernel()
        self.node: Any = None  # the same in C++, if it is built

    def __call__(self, stream: int, x: int, y: int, numel: int, seed: int, offset: int) -> bool:
        """Launch it; False if the driver refuses, whose reason Triton's launcher then gives."""
        num_programs = -(-numel // self.elements)
        with self.one_at_a_time:
            WORDS.pack_into(self.words, 0, x, y, numel, seed, offset)
            sizes = num_programs, 1, 1, self.threads, 1, 1, self.shared
            return self.call(self.function, *sizes, stream, self.arguments, None) == 0

    def addresses(self) -> tuple[int, int]:
        """Of the driver's function, and of the program."""
        return ctypes.cast(self.call, ctypes.c_void_p).value or 0, self.function

    def shape(self) -> tuple[int, int, int]:
        """Threads, shared memory and elements of an instance."""
        return self.threads, self.shared, self.elements


def direct_launch(compiled: Any, constants: Sequence[tuple[str, float]], *, elements: int) -> Launch | None:
    """The launch of a program whose arguments are the five of a call and these; None if Triton made it otherwise."""
    expected = ["u64"] * NUM_OWN + [kind for kind, _ in constants]
    taken = argument_types(compiled.asm.get("ptx", ""))
    scratch = taken[len(expected) :]  # pointers to memory that a program may ask for, which these do not
    metadata = compiled.metadata
    asks = any(getattr(metadata, f"{name}_scratch_size", 0) for name in ("global", "profile"))
    if taken[: len(expected)] != expected or set(scratch) - {"u64"} or asks or getattr(metadata, "num_ctas", 1) != 1:
        return None
    words = [*(word(kind, value) for kind, value in constants), *(0 for _ in scratch)]
    return Launch(compiled, words, elements=elements) if launch_kernel() is not None else None


@functools.lru_cache(maxsize=64)  # a string remembers its hash
def argument_types(ptx: str) -> list[str]:
    """The types of the entry's parameters, such as u64."""
    entry = re.search(r"\.entry[^(]*\(([^)]*)\)", ptx)
    return re.findall(r"\.param \.(\w+)", entry[1]) if entry else []


def word(kind: str, value: float) -> int:
    """The value in a word of eight bytes, in its low end if it has four."""
    return int.from_bytes(struct.pack(f"<{FORMATS[kind]}", value), "little")


@functools.cache
def launch_kernel() -> Any:
    """The driver's cuLaunchKernel; None if there is no driver."""
    try:
        function = ctypes.CDLL("libcuda.so.1").cuLaunchKernel
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]
    function.restype = ctypes.c_int
    return function
