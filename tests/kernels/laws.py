"""The laws every kernel obeys: keep rates, edges, independence, values, layout. Each takes the kernel on trial."""

import itertools
import math

import torch
from torch import Tensor

from supple.kernels.base import Intervals, Kernel

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
AID_90 = Intervals((0.0,), (0.9, 1.0 - 0.9))
CPU = torch.device("cpu")
# Enough draws to tell a rate of 0.9 from its bfloat16 neighbour 0.8984 (5 sigma = 0.0011).
NUM_DRAWS = 2_000_000
NAN, INF = float("nan"), float("inf")


def sigma(rate: float, n: int) -> float:
    """The standard deviation of the mean of n Bernoulli draws."""
    return math.sqrt(rate * (1.0 - rate) / n)


def draw(kernel: Kernel, x: Tensor, intervals: Intervals, *, seed: int) -> Tensor:
    generator = torch.Generator(x.device).manual_seed(seed)
    return kernel.drop(x, intervals, generator=generator, out=None)


def kept(kernel: Kernel, x: Tensor, intervals: Intervals, *, seed: int) -> Tensor:
    """The mask, read off the output; x must have no zeros."""
    return draw(kernel, x, intervals, seed=seed) != 0


def keep_rate(kernel: Kernel, value: float, intervals: Intervals, *, dtype: torch.dtype, device: torch.device) -> float:
    x = torch.full((NUM_DRAWS,), value, dtype=dtype, device=device)
    return kept(kernel, x, intervals, seed=11).double().mean().item()


def check_keep_rates_per_sign(kernel: Kernel, *, dtype: torch.dtype, device: torch.device = CPU) -> None:
    """Positives stay with rate p, negatives with 1 - p, and p is not rounded to x's dtype."""
    for p in (0.9, 0.3, 0.999):
        intervals = Intervals((0.0,), (p, 1.0 - p))
        for value, rate in ((1.5, p), (-1.5, 1.0 - p)):
            measured = keep_rate(kernel, value, intervals, dtype=dtype, device=device)
            assert abs(measured - rate) < 5 * sigma(rate, NUM_DRAWS), f"p={p}, x={value}: kept {measured}"


def check_keep_rates_per_interval(kernel: Kernel, *, dtype: torch.dtype, device: torch.device = CPU) -> None:
    """Each of four intervals has its own rate."""
    intervals = Intervals((-1.0, 0.0, 2.0), (0.15, 0.7, 0.4, 0.95))
    for value, drop in zip((-3.0, -0.25, 1.0, 40.0), intervals.drop, strict=True):
        measured = keep_rate(kernel, value, intervals, dtype=dtype, device=device)
        assert abs(measured - (1.0 - drop)) < 5 * sigma(drop, NUM_DRAWS), f"x={value}: kept {measured}"


def check_rates_zero_and_one_are_certain(kernel: Kernel, *, dtype: torch.dtype, device: torch.device = CPU) -> None:
    x = torch.randn(NUM_DRAWS, device=device).to(dtype)
    x = torch.where(x == 0, torch.ones_like(x), x)
    torch.testing.assert_close(draw(kernel, x, Intervals((0.0,), (1.0, 0.0)), seed=0), x.relu(), rtol=0, atol=0)
    torch.testing.assert_close(draw(kernel, x, Intervals((), (0.0,)), seed=0), x, rtol=0, atol=0)
    assert not draw(kernel, x, Intervals((1.0,), (1.0, 1.0)), seed=0).any()


def check_edge_belongs_to_the_right(kernel: Kernel, *, dtype: torch.dtype, device: torch.device = CPU) -> None:
    """An element equal to an edge, in x's own dtype, falls right; its lower neighbour falls left."""
    for edge in (0.7, -0.7, 0.0, 1.0, 3.3):
        at = torch.full((1000,), edge, dtype=dtype, device=device)
        below = torch.nextafter(at, torch.full_like(at, -INF))
        keep_right, keep_left = Intervals((edge,), (1.0, 0.0), 2.0), Intervals((edge,), (0.0, 1.0), 2.0)
        torch.testing.assert_close(draw(kernel, at, keep_right, seed=0), 2 * at, rtol=0, atol=0)
        torch.testing.assert_close(draw(kernel, below, keep_left, seed=0), 2 * below, rtol=0, atol=0)


def check_elements_are_independent(kernel: Kernel, *, device: torch.device = CPU) -> None:
    """Masks of elements any small lag apart, and of lanes, warps and blocks apart, are uncorrelated."""
    p = 0.3
    mask = kept(kernel, torch.ones(NUM_DRAWS, device=device), Intervals((0.0,), (p, 1.0 - p)), seed=3).double()
    for lag in (1, 2, 3, 4, 7, 8, 16, 32, 64, 128, 256, 1000, 1024, 2048, 4096, 65536, NUM_DRAWS // 2):
        assert abs(correlation(mask[lag:], mask[:-lag], p)) < 5 / math.sqrt(NUM_DRAWS - lag), f"lag {lag}"


def check_calls_are_independent(kernel: Kernel, *, device: torch.device = CPU) -> None:
    """A second call on the same generator draws anew, and is uncorrelated with the first, at small shifts too."""
    p, x = 0.3, torch.ones(NUM_DRAWS, device=device)
    intervals, generator = Intervals((0.0,), (p, 1.0 - p)), torch.Generator(device).manual_seed(5)
    first, second = (kernel.drop(x, intervals, generator=generator, out=None).double() for _ in range(2))
    for lag in (0, 1, 4, 8):
        length = NUM_DRAWS - lag
        assert abs(correlation(first[lag:], second[:length], p)) < 5 / math.sqrt(length), f"lag {lag}"
        assert abs(correlation(second[lag:], first[:length], p)) < 5 / math.sqrt(length), f"lag {-lag}"


def correlation(a: Tensor, b: Tensor, rate: float) -> float:
    return (((a - rate) * (b - rate)).mean() / (rate * (1.0 - rate))).item()


def check_every_position_has_the_rate(kernel: Kernel, *, dtype: torch.dtype, device: torch.device = CPU) -> None:
    """No position, at the head or the tail of an odd length, is kept more often than another."""
    repeats, generator = 1000, torch.Generator(device).manual_seed(7)
    for size in (1, 17, 33):
        x = torch.ones(size, dtype=dtype, device=device)
        masks = [kernel.drop(x, AID_90, generator=generator, out=None) for _ in range(repeats)]
        rates = torch.stack(masks).double().mean(dim=0)
        assert (rates - 0.9).abs().max() < 5 * sigma(0.9, repeats), f"size {size}: {rates}"


def check_a_seed_fixes_the_masks(kernel: Kernel, *, device: torch.device = CPU) -> None:
    x = torch.randn(100_003, device=device)
    assert torch.equal(draw(kernel, x, AID_90, seed=1), draw(kernel, x, AID_90, seed=1))
    assert not torch.equal(draw(kernel, x, AID_90, seed=1), draw(kernel, x, AID_90, seed=2))


def check_default_stream_is_used_only_without_a_generator(kernel: Kernel, *, device: torch.device = CPU) -> None:
    x = torch.randn(1001, device=device)
    torch.manual_seed(9)
    first = kernel.drop(x, AID_90, generator=None, out=None)
    second = kernel.drop(x, AID_90, generator=None, out=None)
    torch.manual_seed(9)
    assert torch.equal(first, kernel.drop(x, AID_90, generator=None, out=None))
    draw(kernel, x, AID_90, seed=0)
    assert torch.equal(second, kernel.drop(x, AID_90, generator=None, out=None))


def check_thread_count_changes_nothing(kernel: Kernel) -> None:
    x, threads = torch.randn(300_007), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = draw(kernel, x, AID_90, seed=4)
        torch.set_num_threads(2)
        two = draw(kernel, x, AID_90, seed=4)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(one, two)


def check_output_is_the_scaled_input_or_zero(kernel: Kernel, *, dtype: torch.dtype, device: torch.device = CPU) -> None:
    """Bit for bit, from the smallest subnormal to the largest number."""
    info = torch.finfo(dtype)
    special = torch.tensor([info.smallest_normal, info.max / 4, info.eps, 1.0], dtype=dtype)
    subnormal = torch.nextafter(torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype))
    x = torch.cat((special, -special, subnormal.view(1), torch.randn(1000).to(dtype))).to(device).repeat(8)
    for scale in (1.0, 1.0 / (1.0 - 0.3)):
        y = draw(kernel, x, Intervals((0.0,), (0.6, 0.3), scale), seed=2)
        assert y.dtype == dtype
        torch.testing.assert_close(y[y != 0], (x * scale)[y != 0], rtol=0, atol=0)
        assert y[x == subnormal.to(device)].any(), "a kept subnormal was flushed to zero"


def check_nan_stays_and_infinities_drop_to_zero(
    kernel: Kernel, *, dtype: torch.dtype, device: torch.device = CPU
) -> None:
    x = torch.tensor([NAN, INF, -INF, 0.0, -0.0], dtype=dtype, device=device).repeat(4000)
    for edges, drop in (((0.0,), (0.9, 1.0 - 0.9)), ((-1.0, 0.0, 1.0), (0.9, 0.5, 0.5, 0.1))):
        nan, positive, negative, *zeros = draw(kernel, x, Intervals(edges, drop), seed=6).view(-1, 5).unbind(1)
        assert nan.isnan().all()
        assert set(positive.tolist()) == {INF, 0.0}
        assert set(negative.tolist()) == {-INF, 0.0}
        assert all(not zero.any() for zero in zeros)


def check_layout_is_that_of_relu(kernel: Kernel, *, device: torch.device = CPU) -> None:
    """channels_last stays channels_last; whatever the strides, values sit where they belong."""
    image = torch.randn(4, 6, 5, 7, device=device)
    views = (
        image.to(memory_format=torch.channels_last),
        image.transpose(1, 3),
        image[:, ::2],
        image[:1].expand(4, -1, -1, -1),
    )
    for x in views:
        y = draw(kernel, x, AID_90, seed=8)
        assert y.stride() == torch.relu(x).stride()
        assert torch.equal(y[y != 0], x[y != 0])
        assert 0 < (y != 0).sum() < x.numel()


def check_out_may_be_the_input(kernel: Kernel, *, device: torch.device = CPU) -> None:
    for x in (
        torch.randn(1003, device=device),
        torch.randn(30, 40, device=device).t(),
        torch.randn(9, 8, device=device)[:, ::3],
    ):
        expected, target = draw(kernel, x, AID_90, seed=3), x.clone(memory_format=torch.preserve_format)
        y = kernel.drop(target, AID_90, generator=torch.Generator(device).manual_seed(3), out=target)
        assert y is target
        assert torch.equal(target, expected)


def check_empty_and_scalar_tensors_pass(kernel: Kernel, *, device: torch.device = CPU) -> None:
    for shape in ((0,), (3, 0, 2), (), (1,)):
        x = torch.ones(shape, device=device)
        assert draw(kernel, x, Intervals((0.0,), (1.0, 0.0)), seed=0).shape == x.shape
        assert torch.equal(kernel.gate(x, x, 2.0), 2 * x)


def check_gate_passes_where_the_output_is_not_zero(
    kernel: Kernel, *, dtype: torch.dtype, device: torch.device = CPU
) -> None:
    y = torch.tensor([1.0, -1.0, 0.0, -0.0, NAN, INF, -INF, torch.finfo(dtype).tiny], dtype=dtype, device=device)
    for scale in (1.0, 1.0 / 0.7):
        grad = torch.tensor([0.1, NAN, NAN, INF, 2.0, -3.0, 0.0, 5.0], dtype=dtype, device=device)
        expected = torch.where(y != 0, grad * scale, torch.zeros_like(grad))
        torch.testing.assert_close(kernel.gate(grad, y, scale), expected, rtol=0, atol=0, equal_nan=True)
    wide = torch.randn(3, 5, 2, 2, device=device).to(dtype)
    image = wide.to(memory_format=torch.channels_last)
    for grad, out in ((wide, image), (image, wide), (wide[:1, :1].expand_as(wide), image)):
        gated = kernel.gate(grad, out, 1.0)
        assert torch.equal(gated, grad * (out != 0))
        assert gated.stride() == torch.empty_like(grad).stride(), "compiled code expects the layout of grad"


ZERO_INSIDE = (((), (0.3,)), ((-1.0, 1.0), (0.2, 0.6, 0.9)), ((0.5,), (0.6, 0.3)), ((-0.5,), (0.3, 0.6)))


def check_an_element_equal_to_zero_gives_minus_zero_if_zero_lies_inside_an_interval(
    kernel: Kernel, *, dtype: torch.dtype, device: torch.device = CPU
) -> None:
    """And no other element does, kept or dropped, even if its product underflows; in place too."""
    subnormal = torch.nextafter(torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype)).item()
    values = torch.tensor([0.0, -0.0, subnormal, -subnormal, 2.0, -2.0], dtype=dtype, device=device)
    for (edges, drop), scale in itertools.product(ZERO_INSIDE, (1.0, 1.0 / 64)):
        x, intervals = values.repeat(1001), Intervals(edges, drop, scale)
        y = draw(kernel, x, intervals, seed=4)
        assert torch.equal((y == 0) & y.signbit(), x == 0)
        assert {value / scale for value in y[x == 2].tolist()} == {0.0, 2.0}
        kernel.drop(x, intervals, generator=torch.Generator(device).manual_seed(4), out=x)
        assert torch.equal(x.signbit(), y.signbit())
        assert torch.equal(x, y)


def check_gate_multiplies_by_the_slope_at_zero_where_the_output_is_minus_zero(
    kernel: Kernel, *, dtype: torch.dtype, device: torch.device = CPU
) -> None:
    y = torch.tensor([-0.0, 0.0, 1.0, -1.0, NAN, INF, -0.0, -0.0], dtype=dtype, device=device).repeat(201)
    grad = torch.randn(y.shape, device=device).to(dtype)
    grad[-8:] = INF
    for scale, at_zero in ((1.0, 0.7), (1.0 / 0.7, 0.3)):
        expected = torch.where(y != 0, grad * scale, torch.where(y.signbit(), grad * at_zero, torch.zeros_like(grad)))
        for g, out, wanted in (
            (grad, y, expected),
            (grad.view(201, 8).t(), y.view(201, 8).t(), expected.view(201, 8).t()),
            (grad.view(201, 8), y.view(201, 8).t().contiguous().t(), expected.view(201, 8)),
            (grad[:1].expand_as(y), y, torch.where(y != 0, grad[0] * scale, (grad[0] * at_zero) * y.signbit())),
        ):
            gated = kernel.gate(g, out, scale, at_zero)
            torch.testing.assert_close(gated, wanted, rtol=0, atol=0, equal_nan=True)
            assert gated.stride() == torch.empty_like(g).stride(), "compiled code expects the layout of grad"


def check_a_zero_tensor_is_zeros(kernel: Kernel, *, device: torch.device = CPU) -> None:
    """torch's own tensors of zeros have no memory behind them, and its derivatives hand them around."""
    zero, y = torch._efficientzerotensor((33,), device=device), torch.ones(33, device=device)
    assert torch.equal(draw(kernel, zero, AID_90, seed=0), torch.zeros_like(y))
    for scale, at_zero in ((1.0, 0.0), (2.0, 0.0), (2.0, 0.5)):
        assert torch.equal(kernel.gate(zero, y, scale, at_zero), torch.zeros_like(y))


EVERY_DTYPE = (
    check_keep_rates_per_sign,
    check_keep_rates_per_interval,
    check_rates_zero_and_one_are_certain,
    check_edge_belongs_to_the_right,
    check_every_position_has_the_rate,
    check_output_is_the_scaled_input_or_zero,
    check_nan_stays_and_infinities_drop_to_zero,
    check_gate_passes_where_the_output_is_not_zero,
    check_an_element_equal_to_zero_gives_minus_zero_if_zero_lies_inside_an_interval,
    check_gate_multiplies_by_the_slope_at_zero_where_the_output_is_minus_zero,
)
ONE_DTYPE = (
    check_elements_are_independent,
    check_calls_are_independent,
    check_a_seed_fixes_the_masks,
    check_default_stream_is_used_only_without_a_generator,
    check_layout_is_that_of_relu,
    check_out_may_be_the_input,
    check_empty_and_scalar_tensors_pass,
    check_a_zero_tensor_is_zeros,
)
