"""Interval-wise dropout in plain torch, for a CPU without the compiled library: a common branch and a rare one.

With two intervals at zero and one rate apart from 0 and 1 (AID, DropReLU, Dropout after ReLU) every element draws one
of two branches, and each branch is ReLU, negative ReLU, the identity or zero. If one is rare, the other is computed for
all and the exceptions are written over it; else both are computed and the bits of one blended into the other. Neither
compares nor selects, for which torch has no vector code on a CPU.
"""

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from supple.kernels.base import Intervals, Kernel
from supple.kernels.bernoulli import bernoulli_words, rare_places, spread
from supple.kernels.layout import BITS, has_memory, in_memory_order, is_dense
from supple.kernels.reference import ReferenceKernel

RARE = 0.2  # up to this rate exceptions are faster than blending (float32, one AVX2 core: 0.3 at 2^16, 0.15 at 2^20)
CHUNK = 1 << 16  # elements blended at a time, so that what lies between x and y stays in the cache


@dataclass(frozen=True)
class Branch:
    """What a draw does to an element, by its sign."""

    keeps_negative: bool
    keeps_positive: bool

    def of(self, x: Tensor, *, out: Tensor | None = None) -> Tensor:
        """ReLU, negative ReLU, identity or zero of x; NaN stays. ``out`` may be x."""
        if self.keeps_negative and self.keeps_positive:
            return x.clone() if out is None else out.copy_(x)
        low = None if self.keeps_negative else 0.0
        high = None if self.keeps_positive else 0.0
        return torch.clamp(x, low, high, out=out)


@dataclass(frozen=True)
class TwoBranches:
    """A law that draws once an element: the common branch, the rare one, and the probability of the rare one."""

    common: Branch
    rare: Branch
    rare_rate: float


@functools.lru_cache(maxsize=256)
def two_branches(intervals: Intervals) -> TwoBranches | None:
    """The law as two branches; None unless there are two intervals at zero, and one rate at most to draw with."""
    if not intervals.two_at_zero:
        return None
    negative, positive = intervals.drop
    drawn = {rate for rate in intervals.drop if 0.0 < rate < 1.0}
    if negative + positive == 1.0:  # true of 0.9 and 0.1, where 1 - 0.9 is not 0.1
        rate, dropping, sparing = negative, Branch(False, True), Branch(True, False)
    elif len(drawn) <= 1:
        rate = max(drawn, default=0.0)
        dropping, sparing = Branch(negative == 0.0, positive == 0.0), Branch(negative < 1.0, positive < 1.0)
    else:
        return None
    return TwoBranches(dropping, sparing, 1.0 - rate) if rate > 0.5 else TwoBranches(sparing, dropping, rate)


class PortableKernel(Kernel):
    """Laws of one draw by common and rare branch; other laws and tensor classes as the reference does."""

    name = "portable torch kernel"

    def __init__(self) -> None:
        self.reference = ReferenceKernel()

    def drop(self, x: Tensor, intervals: Intervals, *, generator: torch.Generator | None, out: Tensor | None) -> Tensor:
        law = two_branches(intervals)
        # A trace would write down the sizes of one draw, and repeat them.
        if law is None or x.dtype not in BITS or not has_memory(x) or torch.jit.is_tracing():
            return self.reference.drop(x, intervals, generator=generator, out=out)
        dense = is_dense(x)
        if out is not None and not (out is x and dense):
            return out.copy_(self.drop(x, intervals, generator=generator, out=None))
        y = torch.empty_like(x) if out is None else out
        x = x if dense else y.copy_(x)
        write = write_exceptions if law.rare_rate <= RARE else write_blend
        write(in_memory_order(x), law, generator=generator, out=in_memory_order(y))
        return y if intervals.scale == 1.0 else y.mul_(intervals.scale)

    def gate(self, grad: Tensor, y: Tensor, scale: float, at_zero: float = 0.0) -> Tensor:
        if at_zero != 0.0 or not has_memory(grad) or not has_memory(y):
            return self.reference.gate(grad, y, scale, at_zero)
        # threshold_backward makes the gradient 0 where |y| <= 0, and lets it pass elsewhere, at NaN too.
        out = torch.abs(y, out=torch.empty_like(grad))
        torch.ops.aten.threshold_backward.grad_input(grad, out, 0.0, grad_input=out)
        return out if scale == 1.0 else out.mul_(scale)


def write_exceptions(x: Tensor, law: TwoBranches, *, generator: torch.Generator | None, out: Tensor) -> None:
    """The common branch everywhere, then the rare one at the places drawn for it; ``out`` may be x."""
    places = rare_places(len(x), law.rare_rate, generator=generator)
    exceptions = law.rare.of(x.index_select(0, places))
    law.common.of(x, out=out).scatter_(0, places, exceptions)


def write_blend(x: Tensor, law: TwoBranches, *, generator: torch.Generator | None, out: Tensor) -> None:
    """Both branches, and of each element the bits of the one drawn; ``out`` may be x."""
    words = bernoulli_words(-(-len(x) // 64), law.rare_rate, generator=generator)
    bits = BITS[x.dtype]
    for chunk, target, part in zip(x.split(CHUNK), out.split(CHUNK), words.split(CHUNK // 64), strict=True):
        rare = law.rare.of(chunk).view(bits)
        common = law.common.of(chunk, out=target).view(bits)
        common ^= rare.bitwise_xor_(common).bitwise_and_(spread(part, bits)[: len(chunk)])
