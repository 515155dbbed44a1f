"""The reference kernel obeys every law, and every law catches the error it is there for."""

from collections.abc import Callable

import laws
import pytest
import torch
from torch import Tensor

from supple.kernels.base import Intervals
from supple.kernels.reference import ReferenceKernel


@pytest.mark.parametrize("dtype", laws.DTYPES, ids=str)
@pytest.mark.parametrize("law", laws.EVERY_DTYPE, ids=lambda law: law.__name__.removeprefix("check_"))
def test_reference_obeys_the_law_in_every_dtype(law, dtype):
    law(ReferenceKernel(), dtype=dtype)


@pytest.mark.parametrize("law", laws.ONE_DTYPE, ids=lambda law: law.__name__.removeprefix("check_"))
def test_reference_obeys_the_law(law):
    law(ReferenceKernel())


def test_reference_masks_do_not_depend_on_the_thread_count():
    laws.check_thread_count_changes_nothing(ReferenceKernel())


def with_rates(intervals: Intervals, dtype: torch.dtype) -> Intervals:
    rounded = tuple(torch.tensor(rate, dtype=dtype).item() for rate in intervals.drop)
    return Intervals(intervals.edges, rounded, intervals.scale)


def shared_by_pairs(drop: Callable, x: Tensor, intervals: Intervals, **o: object) -> Tensor:
    half = drop(x.flatten()[: (x.numel() + 1) // 2], intervals, **o | {"out": None})
    return half.repeat_interleave(2)[: x.numel()].view_as(x)


def last_element_kept(drop: Callable, x: Tensor, intervals: Intervals, **o: object) -> Tensor:
    y = drop(x, intervals, **o | {"out": None})
    y.view(-1)[-1:] = x.reshape(-1)[-1:]
    return y


def multiplied_mask(drop: Callable, x: Tensor, intervals: Intervals, **o: object) -> Tensor:
    return x * drop(torch.where(x >= 0, 1.0, -1.0).to(x.dtype), intervals, **o | {"out": None}).abs()


def left_edges(drop: Callable, x: Tensor, intervals: Intervals, **o: object) -> Tensor:
    edges = tuple(edge + 1e-6 for edge in intervals.edges)
    return drop(x, Intervals(edges, intervals.drop, intervals.scale), **o)


def written(y: Tensor, out: Tensor | None) -> Tensor:
    return y if out is None else out.copy_(y)


def marked_underflow(drop: Callable, x: Tensor, intervals: Intervals, **o: object) -> Tensor:
    y = drop(x, intervals, **o | {"out": None})
    return written(torch.where((y == 0) & (x < 0), -0.0, y), o["out"])


DROPS = {
    "rounded rate": lambda drop, x, intervals, **o: drop(x, with_rates(intervals, x.dtype), **o),
    "swapped signs": lambda drop, x, intervals, **o: -drop(-x, intervals, **o | {"out": None}),
    "shared by pairs": shared_by_pairs,
    "same every call": lambda drop, x, i, **o: drop(x, i, **o | {"generator": torch.Generator().manual_seed(0)}),
    "multiplied mask": multiplied_mask,
    "last element kept": last_element_kept,
    "contiguous output": lambda drop, x, intervals, **o: drop(x, intervals, **o | {"out": None}).contiguous(),
    "edge from the left": left_edges,
    "ignores generator": lambda drop, x, intervals, **o: drop(x, intervals, **o | {"generator": None}),
    "unmarked zero": lambda drop, x, i, **o: written(drop(x, i, **o | {"out": None}) + 0.0, o["out"]),
    "marked underflow": marked_underflow,
}
GATES = {
    "ungated scale": lambda gate, grad, y, scale, at_zero: gate(grad, y, 1.0, at_zero),
    "multiplied gate": lambda gate, grad, y, scale, at_zero: grad * scale * (y != 0),
    "what is in no memory": lambda gate, grad, y, *slopes: gate(grad + float(grad._is_zerotensor()), y, *slopes),
    "gate of any zero": lambda gate, grad, y, scale, at_zero: torch.where(y == 0, grad * at_zero, grad * scale),
}


class Planted(ReferenceKernel):
    """The reference with one error; the laws must see it."""

    def __init__(self, error: str) -> None:
        self.error = error

    def drop(self, x, intervals, *, generator, out):
        wrong = DROPS.get(self.error, lambda drop, *args, **o: drop(*args, **o))
        return wrong(super().drop, x, intervals, generator=generator, out=out)

    def gate(self, grad, y, scale, at_zero=0.0):
        wrong = GATES.get(self.error, lambda gate, *args: gate(*args))
        return wrong(super().gate, grad, y, scale, at_zero)


SEEN = {
    laws.check_keep_rates_per_sign: ("rounded rate", "swapped signs"),
    laws.check_keep_rates_per_interval: ("rounded rate", "swapped signs"),
    laws.check_rates_zero_and_one_are_certain: ("swapped signs",),
    laws.check_elements_are_independent: ("shared by pairs",),
    laws.check_calls_are_independent: ("same every call",),
    laws.check_a_seed_fixes_the_masks: ("same every call",),
    laws.check_default_stream_is_used_only_without_a_generator: ("ignores generator",),
    laws.check_nan_stays_and_infinities_drop_to_zero: ("multiplied mask",),
    laws.check_every_position_has_the_rate: ("last element kept",),
    laws.check_layout_is_that_of_relu: ("contiguous output",),
    laws.check_out_may_be_the_input: ("contiguous output",),
    laws.check_edge_belongs_to_the_right: ("edge from the left",),
    laws.check_output_is_the_scaled_input_or_zero: ("shared by pairs",),
    laws.check_gate_passes_where_the_output_is_not_zero: ("ungated scale", "multiplied gate"),
    laws.check_empty_and_scalar_tensors_pass: ("ungated scale",),
    laws.check_a_zero_tensor_is_zeros: ("what is in no memory",),
    laws.check_an_element_equal_to_zero_gives_minus_zero_if_zero_lies_inside_an_interval: (
        *("unmarked zero", "marked underflow"),
    ),
    laws.check_gate_multiplies_by_the_slope_at_zero_where_the_output_is_minus_zero: (
        *("gate of any zero", "multiplied gate"),
    ),
}
ERRORS = [pytest.param(law, e, id=f"{e}-{law.__name__[6:40]}") for law, errors in SEEN.items() for e in errors]


def test_every_law_has_an_error_that_it_catches():
    assert set(SEEN) == {*laws.EVERY_DTYPE, *laws.ONE_DTYPE}


@pytest.mark.parametrize(("law", "error"), ERRORS)
def test_law_catches_a_planted_error(law, error):
    dtype = torch.bfloat16 if error == "rounded rate" else torch.float32
    options = {"dtype": dtype} if law in laws.EVERY_DTYPE else {}
    with pytest.raises(AssertionError):
        law(Planted(error), **options)
