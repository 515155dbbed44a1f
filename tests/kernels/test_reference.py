"""The reference kernel obeys every law, and every law catches the error it is there for."""

from collections.abc import Callable

import laws
import pytest
import torch

from supple.kernels.base import Intervals, Kernel
from supple.kernels.reference import ReferenceKernel


@pytest.mark.parametrize("dtype", laws.DTYPES, ids=str)
@pytest.mark.parametrize("law", laws.EVERY_DTYPE, ids=lambda law: law.__name__.removeprefix("check_"))
def test_reference_obeys_the_law_in_every_dtype(law: Callable, dtype: torch.dtype):
    law(ReferenceKernel(), dtype=dtype)


@pytest.mark.parametrize("law", laws.ONE_DTYPE, ids=lambda law: law.__name__.removeprefix("check_"))
def test_reference_obeys_the_law(law: Callable):
    law(ReferenceKernel())


def test_reference_masks_do_not_depend_on_the_thread_count():
    laws.check_thread_count_changes_nothing(ReferenceKernel())


def test_backward_takes_the_mask_from_the_output_alone():
    x, grad = torch.randn(1000), torch.randn(1000)
    y = laws.draw(ReferenceKernel(), x, Intervals((0.0,), (0.9, 0.1), 2.0), seed=0)
    assert torch.equal(ReferenceKernel().gate(grad, y, 2.0), torch.where(y == 2 * x, 2 * grad, torch.zeros(())))


class Planted(ReferenceKernel):
    """The reference with one error; the laws must see it."""


class RoundedRate(Planted):
    def drop(self, x, intervals, *, generator, out):
        rounded = tuple(torch.tensor(rate, dtype=x.dtype).item() for rate in intervals.drop)
        return super().drop(x, Intervals(intervals.edges, rounded, intervals.scale), generator=generator, out=out)


class SwappedSigns(Planted):
    def drop(self, x, intervals, *, generator, out):
        return -super().drop(-x, intervals, generator=generator, out=None)


class SharedByPairs(Planted):
    def drop(self, x, intervals, *, generator, out):
        half = super().drop(x.flatten()[: (x.numel() + 1) // 2], intervals, generator=generator, out=None)
        return half.repeat_interleave(2)[: x.numel()].view_as(x)


class SameEveryCall(Planted):
    def drop(self, x, intervals, *, generator, out):
        fixed = torch.Generator().manual_seed(0)
        return super().drop(x, intervals, generator=fixed, out=out)


class MultipliedMask(Planted):
    def drop(self, x, intervals, *, generator, out):
        return (
            x * super().drop(torch.where(x >= 0, 1.0, -1.0).to(x.dtype), intervals, generator=generator, out=None).abs()
        )


class LastElementKept(Planted):
    def drop(self, x, intervals, *, generator, out):
        y = super().drop(x, intervals, generator=generator, out=None)
        y.view(-1)[-1:] = x.reshape(-1)[-1:]
        return y


class ContiguousOutput(Planted):
    def drop(self, x, intervals, *, generator, out):
        return super().drop(x, intervals, generator=generator, out=None).contiguous()


class EdgeFromTheLeft(Planted):
    def drop(self, x, intervals, *, generator, out):
        edges = tuple(edge + 1e-6 for edge in intervals.edges)
        return super().drop(x, Intervals(edges, intervals.drop, intervals.scale), generator=generator, out=out)


class IgnoresGenerator(Planted):
    def drop(self, x, intervals, *, generator, out):
        return super().drop(x, intervals, generator=None, out=out)


class UngatedScale(Planted):
    def gate(self, grad, y, scale, at_zero=0.0):
        return super().gate(grad, y, 1.0, at_zero)


class MultipliedGate(Planted):
    def gate(self, grad, y, scale, at_zero=0.0):
        return grad * scale * (y != 0)


class UnmarkedZero(Planted):
    def drop(self, x, intervals, *, generator, out):
        y = super().drop(x, intervals, generator=generator, out=None) + 0.0
        return y if out is None else out.copy_(y)


class MarkedUnderflow(Planted):
    def drop(self, x, intervals, *, generator, out):
        y = super().drop(x, intervals, generator=generator, out=None)
        y = torch.where((y == 0) & (x < 0), -0.0, y)
        return y if out is None else out.copy_(y)


class GateOfAnyZero(Planted):
    def gate(self, grad, y, scale, at_zero=0.0):
        return torch.where(y == 0, grad * at_zero, grad * scale)


MARK = laws.check_an_element_equal_to_zero_gives_minus_zero_if_zero_lies_inside_an_interval
SLOPE = laws.check_gate_multiplies_by_the_slope_at_zero_where_the_output_is_minus_zero


@pytest.mark.parametrize(
    ("kernel", "law"),
    [
        (RoundedRate(), lambda k: laws.check_keep_rates_per_sign(k, dtype=torch.bfloat16)),
        (RoundedRate(), lambda k: laws.check_keep_rates_per_interval(k, dtype=torch.bfloat16)),
        (SwappedSigns(), lambda k: laws.check_keep_rates_per_sign(k, dtype=torch.float32)),
        (SwappedSigns(), lambda k: laws.check_keep_rates_per_interval(k, dtype=torch.float32)),
        (SwappedSigns(), lambda k: laws.check_rates_zero_and_one_are_certain(k, dtype=torch.float32)),
        (SharedByPairs(), laws.check_elements_are_independent),
        (SameEveryCall(), laws.check_calls_are_independent),
        (SameEveryCall(), laws.check_a_seed_fixes_the_masks),
        (IgnoresGenerator(), laws.check_default_stream_is_used_only_without_a_generator),
        (MultipliedMask(), lambda k: laws.check_nan_stays_and_infinities_drop_to_zero(k, dtype=torch.float32)),
        (LastElementKept(), lambda k: laws.check_every_position_has_the_rate(k, dtype=torch.float32)),
        (ContiguousOutput(), laws.check_layout_is_that_of_relu),
        (ContiguousOutput(), laws.check_out_may_be_the_input),
        (EdgeFromTheLeft(), lambda k: laws.check_edge_belongs_to_the_right(k, dtype=torch.float32)),
        (SharedByPairs(), lambda k: laws.check_output_is_the_scaled_input_or_zero(k, dtype=torch.float32)),
        (UngatedScale(), lambda k: laws.check_gate_passes_where_the_output_is_not_zero(k, dtype=torch.float32)),
        (MultipliedGate(), lambda k: laws.check_gate_passes_where_the_output_is_not_zero(k, dtype=torch.float32)),
        (UngatedScale(), laws.check_empty_and_scalar_tensors_pass),
        *((kernel, lambda k: MARK(k, dtype=torch.float32)) for kernel in (UnmarkedZero(), MarkedUnderflow())),
        *((kernel, lambda k: SLOPE(k, dtype=torch.float32)) for kernel in (GateOfAnyZero(), MultipliedGate())),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Kernel) else "",
)
def test_law_catches_a_planted_error(kernel: Kernel, law: Callable):
    torch.manual_seed(0)
    with pytest.raises(AssertionError):
        law(kernel)
