"""How a tensor lies in memory, as far as a kernel that walks over it element by element must know."""

import torch
from torch import Tensor
from torch.nn import Parameter

PLAIN = (Tensor, Parameter)

# The integers that hold the bits of the floats a kernel of ours knows.
BITS = {torch.float32: torch.int32, torch.float64: torch.int64, torch.bfloat16: torch.int16, torch.float16: torch.int16}


def has_memory(x: Tensor) -> bool:
    """Whether x has memory of its own to walk over: fake, distributed and batched tensors and ZeroTensors have none."""
    return type(x) in PLAIN and torch._C._has_storage(x) and not x._is_zerotensor()


def is_flat(x: Tensor) -> bool:
    """Whether x is a plain row of elements in memory."""
    # has_memory written out, since this is asked three times a call.
    if type(x) not in PLAIN or not x.is_contiguous() or not torch._C._has_storage(x):
        return False
    return not x.is_neg() and not x._is_zerotensor()


def share_layout(x: Tensor, dense: Tensor) -> bool:
    """Whether x lies in memory as ``dense``, which has no gaps."""
    return ((x.is_contiguous() and dense.is_contiguous()) or x.stride() == dense.stride()) and not x.is_neg()


def is_dense(x: Tensor) -> bool:
    """Whether x has no gaps, in whatever order of dimensions: of just such a tensor empty_like keeps the strides."""
    return share_layout(x, x if x.is_contiguous() else torch.empty_like(x))


def in_memory_order(dense: Tensor) -> Tensor:
    """All elements of a tensor without gaps, as a vector over the same memory."""
    return dense.as_strided((dense.numel(),), (1,))
