"""The Triton programs obey the laws in Triton's interpreter, on a machine without a GPU.

The interpreter is chosen when Triton is imported: set TRITON_INTERPRET=1 for these tests alone, as `make mutate` does.
"""

import os

import laws
import pytest
import torch
from torch import Tensor

from supple.kernels.base import Intervals, Kernel

pytest.importorskip("triton", minversion="3.4")
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("needs TRITON_INTERPRET=1", allow_module_level=True)

from host_philox import host_uniforms

from supple.kernels.cuda_seed import signed
from supple.kernels.triton import BLOCK, GROUPS, plan
from supple.kernels.triton_programs import drop_kernel, gate_kernel

# The interpreter of Triton 3.9 cuts bfloat16 off instead of rounding it, and passes a scale as float32.
ROUNDED_DTYPES = (torch.float32, torch.float16)
QUICK_LAWS = (
    laws.check_edge_belongs_to_the_right,
    laws.check_output_is_the_scaled_input_or_zero,
    laws.check_nan_stays_and_infinities_drop_to_zero,
    laws.check_gate_passes_where_the_output_is_not_zero,
    laws.check_an_element_equal_to_zero_gives_minus_zero_if_zero_lies_inside_an_interval,
    laws.check_gate_multiplies_by_the_slope_at_zero_where_the_output_is_minus_zero,
)


class Interpreted(Kernel):
    """The programs over CPU tensors, launched as TritonKernel launches them."""

    name = "Triton's interpreter"

    def drop(self, x: Tensor, intervals: Intervals, *, generator: torch.Generator, out: Tensor | None) -> Tensor:
        y = torch.empty_like(x) if out is None else out
        drop(x, y, intervals, seed=generator.initial_seed(), offset=0)
        return y

    def gate(self, grad: Tensor, y: Tensor, scale: float, at_zero: float = 0.0) -> Tensor:
        out, like_grad = torch.empty_like(grad), torch.empty_like(grad).copy_(y)
        gate(torch.empty_like(grad).copy_(grad), like_grad, out, scale, at_zero)
        return out


def drop(x: Tensor, y: Tensor, intervals: Intervals, *, seed: int, offset: int) -> None:
    edges, rates, scaled, marked = plan(intervals, x.dtype)
    told = (x.numel(), signed(seed), offset, None, rates, intervals.scale, edges, scaled, marked, GROUPS, False)
    drop_kernel[(-(-x.numel() // (8 * GROUPS)),)](x, y, *told)


def gate(grad: Tensor, y: Tensor, out: Tensor, scale: float, at_zero: float = 0.0) -> None:
    told = (y.numel(), scale, at_zero, at_zero != 0.0, BLOCK, False)
    gate_kernel[(-(-y.numel() // BLOCK),)](grad, y, out, *told)


@pytest.mark.parametrize("dtype", ROUNDED_DTYPES, ids=str)
@pytest.mark.parametrize("law", QUICK_LAWS, ids=lambda law: law.__name__.removeprefix("check_"))
def test_interpreted_programs_obey_the_law(law, dtype):
    law(Interpreted(), dtype=dtype)


@pytest.mark.parametrize(("dtype", "num_blocks"), [(torch.float32, 40), (torch.float16, 2)])
@pytest.mark.parametrize("seed", [12345, 2**64 - 3])
def test_interpreted_masks_are_the_philox_bits_of_seed_and_offset(seed, dtype, num_blocks):
    x, offset = torch.randn(num_blocks * 8 * GROUPS - 77).to(dtype), (5 << 32) + 8
    uniforms = host_uniforms(num_blocks, groups=GROUPS, seed=seed, offset=offset)[: x.numel()]
    keep = torch.where(x >= 0, 0.999, torch.where(x >= -0.5, 0.1, 0.8).double())
    y = torch.empty_like(x)
    drop(x, y, Intervals((-0.5, 0.0), (0.2, 0.9, 1e-3), 1.25), seed=seed, offset=offset)
    torch.testing.assert_close(y, torch.where(uniforms < keep, x * 1.25, torch.zeros_like(x)), rtol=0, atol=0)


@pytest.mark.parametrize("size", [1, 1023, 4 * GROUPS, 4 * GROUPS + 1, 8 * GROUPS - 1, 8 * GROUPS, 8 * GROUPS + 1])
def test_interpreted_programs_write_every_element_and_spare_the_neighbours(size):
    grad, storage = torch.randn(2, size + 2)
    y, gated = torch.full((2, size + 2), 7.0)
    drop(storage[1:-1], y[1:-1], Intervals((), (0.0,)), seed=1, offset=0)
    gate(grad[1:-1], y[1:-1], gated[1:-1], 3.0)
    assert torch.equal(y[1:-1], storage[1:-1])
    assert torch.equal(gated[1:-1], 3 * grad[1:-1])
    assert torch.equal(torch.stack((y, gated))[:, [0, -1]], torch.full((2, 2), 7.0))
