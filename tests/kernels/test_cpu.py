"""The fused CPU kernel obeys every law, draws one stream on every path, and is as exact as eager torch."""

import ctypes
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import laws
import pytest
import stream
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from slowly import slow
from supple import kernels
from supple.kernels import cpu
from supple.kernels.base import Intervals
from supple.kernels.cpu import BrokenLibraryError, CpuKernel
from supple.kernels.operator import interval_dropout

FLIP = Intervals((0.0,), (0.9, 1.0 - 0.9))
SELECT = Intervals((0.0,), (1.0, 0.3), 1.0 / 0.7)
TWO_RATES = Intervals((0.0,), (0.6, 0.3), 1.0 / 0.7)
FOUR = Intervals((-1.0, 0.0, 1.0), (0.2, 0.7, 0.5, 0.4))
PATHS = (FLIP, Intervals((0.0,), (0.95, 0.0)), SELECT, Intervals((0.0,), (0.3, 0.3)), TWO_RATES, FOUR)
EVERY_DTYPE = pytest.mark.parametrize("dtype", laws.DTYPES, ids=str)
EVERY_PATH = pytest.mark.parametrize("intervals", PATHS, ids=str)
SEED_A, SEED_B = ((ctypes.c_uint64 * 1)(seed) for seed in (1, 2))


@pytest.fixture
def every_level(kernel: CpuKernel) -> Iterator[Callable[[], Iterator[str]]]:
    def levels() -> Iterator[str]:
        for level in range(kernel.library.supple_best_level() + 1):
            kernel.library.supple_use_level(level)
            yield kernel.library.supple_level_name(level).decode()

    yield levels
    kernel.library.supple_use_level(kernel.level)


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def same_bits(a: Tensor, b: Tensor) -> bool:
    bits = cpu.BITS[a.dtype]
    return torch.equal(a.view(bits), b.view(bits))


def draw_with_seed(kernel: CpuKernel, x: Tensor, intervals: Intervals, seed: ctypes.Array) -> Tensor:
    """As drop, with the library's own seed in place of a generator."""
    y = torch.empty_like(x)
    law = kernel.law_of(intervals.edges, intervals.drop, intervals.scale, x.dtype)
    kernel.c_drop(y.data_ptr(), x.data_ptr(), x.numel(), law, seed, 1)
    return y


@EVERY_DTYPE
@pytest.mark.parametrize("law", laws.EVERY_DTYPE, ids=lambda law: law.__name__.removeprefix("check_"))
def test_fused_kernel_obeys_the_law_in_every_dtype(kernel, law, dtype):
    law(kernel, dtype=dtype)


@pytest.mark.parametrize("law", laws.ONE_DTYPE, ids=lambda law: law.__name__.removeprefix("check_"))
def test_fused_kernel_obeys_the_law(kernel, law):
    law(kernel)


@pytest.mark.parametrize("p", [1e-3, 0.7, *map(slow, (1e-6, 0.1, 0.5, 0.9, 0.999, 1 - 1e-6))])
def test_keep_rates_hold_over_a_hundred_million_draws(kernel, p):
    # An odd size, so that each call ends in a partial group; bfloat16 halves the memory to walk over.
    x, calls = torch.ones(10_000_019, dtype=torch.bfloat16), 10
    generator = torch.Generator().manual_seed(21)
    for sign, rate in ((1.0, p), (-1.0, 1.0 - p)):
        drawn = (kernel.drop(sign * x, laws_of_aid(p), generator=generator, out=None) for _ in range(calls))
        measured = sum(y.count_nonzero().item() for y in drawn) / (calls * x.numel())
        assert abs(measured - rate) < 5 * laws.sigma(rate, calls * x.numel()), f"sign {sign}: kept {measured}"


def laws_of_aid(p: float) -> Intervals:
    return Intervals((0.0,), (p, 1.0 - p))


@pytest.mark.parametrize("law", [lambda r: Intervals((0.0,), (r, 0.0)), lambda r: Intervals((0.0,), (r, r / 2))])
def test_rate_counts_to_its_last_binary_place(kernel, law):
    # The first group of a call compares the same U with whatever rate; so bisection over rates reads U itself. Each of
    # its 53 places is set in half of the draws, and differs from the one before in half of them, or the rate was cut
    # off or rounded before that place.
    num_seeds, x = 200, -torch.ones(1)
    uniforms = []
    for seed in range(num_seeds):
        words, below = (ctypes.c_uint64 * 1)(seed), 0
        for place in reversed(range(53)):
            rate = (below | 1 << place) / 2**53
            below |= (draw_with_seed(kernel, x, law(rate), words).item() != 0) << place
        uniforms.append(below)
    for place in range(53):
        is_set = sum(uniform >> place & 1 for uniform in uniforms) / num_seeds
        differs = sum((uniform ^ uniform >> 1) >> place & 1 for uniform in uniforms) / num_seeds
        for share in (is_set, differs):
            assert abs(share - 0.5) < 5 * laws.sigma(0.5, num_seeds), f"place {53 - place}: {share}"


@EVERY_PATH
def test_masks_of_groups_blocks_and_seeds_are_independent(kernel, intervals):
    x, n = torch.full((4_000_000,), 0.5), 4_000_000
    rate = 1.0 - intervals.drop[-2 if intervals is FOUR else -1]
    if rate == 1.0:
        x, rate = -x, 1.0 - intervals.drop[0]
    first, second = (draw_with_seed(kernel, x, intervals, seed).ne(0).double() for seed in (SEED_A, SEED_B))
    assert abs(laws.correlation(first, second, rate)) < 5 / math.sqrt(n), "seeds 1 and 2"
    for lag in (1, 16, 31, 32, 512, 1024, 4096, 8192, 16384, 8192 * 7):
        assert abs(laws.correlation(first[lag:], first[:-lag], rate)) < 5 / math.sqrt(n - lag), f"lag {lag}"


@EVERY_DTYPE
@EVERY_PATH
def test_one_two_and_seven_threads_agree_bit_for_bit(kernel, threads, intervals, dtype):
    x, grad = torch.randn(2, 400_003).to(dtype)
    drawn, gated = [], []
    for num_threads in (1, 2, 7):
        threads(num_threads)
        drawn.append(laws.draw(kernel, x, intervals, seed=4))
        gated.append(kernel.gate(grad, drawn[-1], intervals.scale))
    assert all(same_bits(y, drawn[0]) for y in drawn)
    assert all(same_bits(g, gated[0]) for g in gated)


@EVERY_DTYPE
@EVERY_PATH
def test_every_instruction_set_draws_the_same_stream(kernel, every_level, intervals, dtype):
    x, grad = torch.randn(2, 100_003).to(dtype)
    results = {}
    for level in every_level():
        y = laws.draw(kernel, x, intervals, seed=6)
        results[level] = y, kernel.gate(grad, y, intervals.scale)
    first = results["baseline"]
    for level, (y, gated) in results.items():
        assert same_bits(y, first[0]), level
        assert same_bits(gated, first[1]), level


def test_stream_written_again_knows_the_published_answer_of_philox():
    assert stream.philox([0, 0, 0, 0], [0, 0]) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@pytest.mark.parametrize("p", [0.9, 0.5, 0.3])
@pytest.mark.parametrize("seed", [0, 2**63 - 17])
def test_masks_are_those_of_the_described_stream(kernel, p, seed):
    num_groups = 2 * stream.GROUPS_IN_BLOCK + 3
    y = draw_with_seed(kernel, torch.ones(num_groups * stream.GROUP), laws_of_aid(p), (ctypes.c_uint64 * 1)(seed))
    assert (y != 0).tolist() == list(stream.float32_below(seed, int(p * 2**64), num_groups))


@EVERY_DTYPE
@EVERY_PATH
@pytest.mark.parametrize("size", [1, 2, 17, 511, 512, 513, 8191, 8193, 70_001])
def test_fused_error_is_at_most_twice_eager_error(kernel, intervals, dtype, size):
    x, grad = torch.randn(2, size).to(dtype)
    y = laws.draw(kernel, x, intervals, seed=7)
    mask = (y != 0).to(dtype)
    for fused, value in ((y, x), (kernel.gate(grad, y, intervals.scale), grad)):
        eager, exact = value * mask * intervals.scale, value.double() * mask.double() * intervals.scale
        ulp = torch.finfo(dtype).eps * exact.abs().max().item()
        error = (eager.double() - exact).abs().max().item()
        assert (fused.double() - exact).abs().max().item() <= 2 * error + ulp


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("scale", [1.0 / 0.7, 1.0 / 3.0, 1e-4, 3e4])
def test_scaling_rounds_every_16_bit_number_as_torch_does(kernel, dtype, scale):
    x = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(dtype)
    keep_all = Intervals((0.0,), (0.0, 0.0), scale)
    for scaled in (laws.draw(kernel, x, keep_all, seed=0), kernel.gate(x, torch.ones_like(x), scale)):
        torch.testing.assert_close(scaled, x * scale, rtol=0, atol=0, equal_nan=True)


@EVERY_DTYPE
@EVERY_PATH
def test_dropped_is_plus_zero_and_kept_is_scaled_to_the_sign_of_zero(kernel, intervals, dtype):
    x = torch.tensor((3.0, -3.0, 0.0, -0.0, laws.INF, -laws.INF), dtype=dtype).repeat(4001)
    y, bits = laws.draw(kernel, x, intervals, seed=3), cpu.BITS[dtype]
    scaled, zero = x * intervals.scale, torch.zeros_like(x)
    kept = y.view(bits) == scaled.view(bits)
    assert same_bits(torch.where(kept, scaled, zero), y)
    # An element equal to the edge 0 belongs to the right, and so does -0.
    right = 1.0 - intervals.drop[2 if intervals is FOUR else 1]
    share = torch.signbit(y[(x == 0) & torch.signbit(x)]).double().mean().item()
    assert abs(share - right) <= 5 * laws.sigma(right, 4001), f"-0 kept in {share}"


@EVERY_DTYPE
@pytest.mark.parametrize("scale", [2.0, -2.0])
@pytest.mark.parametrize("negative", [0.75, 1.0], ids=["sum to one", "one is open"])
def test_two_rates_at_zero_may_have_any_scale(kernel, negative, scale, dtype):
    x = torch.tensor((3.0, -3.0, 0.0, -0.0), dtype=dtype).repeat(4001)
    y = laws.draw(kernel, x, Intervals((0.0,), (negative, 0.25), scale), seed=3)
    kept = y.view(cpu.BITS[dtype]) == (x * scale).view(cpu.BITS[dtype])
    assert same_bits(torch.where(kept, x * scale, torch.zeros_like(x)), y)
    # Of the two zeros, the one that becomes -0 shows whether it was kept.
    for place, rate in ((0, 0.75), (1, 1.0 - negative), (2 if scale < 0 else 3, 0.75)):
        share = kept[place::4].double().mean().item()
        assert abs(share - rate) <= 5 * laws.sigma(rate, 4001), f"{x[place]} kept in {share}"


@EVERY_DTYPE
@EVERY_PATH
def test_nan_of_either_sign_stays_nan(kernel, intervals, dtype):
    bits = torch.full((5001,), laws.NAN, dtype=dtype).view(cpu.BITS[dtype])
    for x in (bits.view(dtype), (bits ^ torch.iinfo(bits.dtype).min).view(dtype)):
        assert laws.draw(kernel, x, intervals, seed=2).isnan().all()


def test_lazy_negation_is_seen(kernel):
    negated = torch._neg_view(torch.randn(1000))
    assert negated.is_neg()
    assert negated.is_contiguous()
    y = laws.draw(kernel, negated, FLIP, seed=2)
    assert torch.equal(y[y != 0], negated[y != 0])
    assert torch.equal(kernel.gate(negated, negated, 2.0), 2 * negated)
    assert torch.equal(kernel.gate(torch.ones(1000), negated, 1.0), torch.ones(1000))


def test_out_may_lie_otherwise_than_the_input(kernel):
    x = torch.randn(30, 40)
    for out in (torch.empty(40, 30).t(), torch.empty(30, 80)[:, ::2], torch.empty(30, 40, dtype=torch.float64)):
        y = kernel.drop(x, FLIP, generator=torch.Generator().manual_seed(1), out=out)
        assert y is out
        assert torch.equal(out.float(), laws.draw(kernel, x, FLIP, seed=1))


def test_shapes_that_differ_never_reach_the_library(kernel):
    grad, y = torch.randn(4, 3), torch.tensor([1.0, 0.0, -1.0])
    assert torch.equal(kernel.gate(grad, y, 1.0), grad * (y != 0))


def test_more_intervals_than_the_library_takes_are_still_served(kernel):
    count = kernel.library.supple_most_intervals()
    for num_edges in (count - 1, count, count + 5):
        edges = tuple(float(edge) for edge in range(num_edges))
        keep_even = Intervals(edges, tuple(float(j % 2) for j in range(num_edges + 1)))
        x = torch.arange(num_edges) + 0.5
        assert torch.equal(laws.draw(kernel, x, keep_even, seed=0), torch.where(x % 2 > 1, x, 0.0))


def test_tensors_without_memory_go_to_the_reference(kernel):
    with FakeTensorMode():
        x = torch.empty(5, 3)
        assert kernel.drop(x, Intervals((0.123,), (0.4, 0.5)), generator=None, out=None).shape == (5, 3)
        assert kernel.gate(x, x, 2.0).shape == (5, 3)


def test_batched_gradients_are_gated_one_by_one():
    x, grads = torch.randn(100, requires_grad=True), torch.randn(5, 100)
    y = interval_dropout(x, TWO_RATES)
    (gated,) = torch.autograd.grad(y, x, grads, is_grads_batched=True)
    torch.testing.assert_close(gated, grads * TWO_RATES.scale * (y != 0), rtol=0, atol=0)


def test_python_threads_draw_into_seeds_of_their_own(kernel):
    with ThreadPoolExecutor(1) as executor:
        other = executor.submit(kernel.seed.draw, None).result()
    assert other != kernel.seed.draw(None), "two threads would overwrite each other's seed, and could draw one mask"


WATCH_THREADS = """
import os, torch
torch.set_num_threads(3)
x = torch.randn(1 << 20).relu()
before = len(os.listdir("/proc/self/task"))
from supple.kernels.base import Intervals
from supple.kernels.cpu import CpuKernel
y = CpuKernel().drop(x, Intervals((0.0,), (0.9, 0.1)), generator=None, out=None)
CpuKernel().gate(x, y, 1.0)
print(before, len(os.listdir("/proc/self/task")))
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads in /proc")
def test_work_is_done_by_the_threads_torch_has_already(kernel):
    assert kernel.has_pool
    counts = subprocess.run([sys.executable, "-c", WATCH_THREADS], capture_output=True, text=True, check=True).stdout
    before, after = map(int, counts.split())
    assert before >= 3
    assert after == before


def test_library_of_another_source_is_refused(kernel, monkeypatch, tmp_path):
    changed = tmp_path / "cpu.c"
    changed.write_text(cpu.SOURCES[0].read_text() + "\n")
    monkeypatch.setattr(cpu, "SOURCES", [changed, *cpu.SOURCES[1:]])
    with pytest.raises(BrokenLibraryError, match="of other sources: install supple again"):
        CpuKernel()
    with pytest.warns(UserWarning, match="without its fused CPU kernel"):
        chosen, why = kernels.choose_cpu_kernel("")
    assert chosen.name == "portable torch kernel"
    assert "of other sources" in why


def test_library_that_is_not_one_is_refused(monkeypatch, tmp_path):
    broken = tmp_path / "libsupple.so"
    broken.write_text("no library")
    monkeypatch.setattr(cpu, "LIBRARY", broken)
    with pytest.raises(BrokenLibraryError, match="does not load"):
        CpuKernel()


def test_without_a_library_the_portable_kernel_serves_and_says_why(monkeypatch, tmp_path):
    monkeypatch.setattr(cpu, "LIBRARY", tmp_path / "libsupple.so")
    chosen, why = kernels.choose_cpu_kernel("")
    assert chosen.name == "portable torch kernel"
    assert why == "no compiled library: install supple where there is a C compiler"
    with pytest.raises(RuntimeError, match="SUPPLE_KERNEL=cpu cannot be had: no compiled library"):
        kernels.choose_cpu_kernel("cpu")


def test_environment_variable_forces_a_path_or_is_refused():
    for name in ("portable", "reference"):
        chosen, why = kernels.choose_cpu_kernel(name)
        assert name in chosen.name
        assert why == "SUPPLE_KERNEL asks for it"
    with pytest.raises(ValueError, match=r"one of cpu, portable, reference.*got 'fast'"):
        kernels.choose_cpu_kernel("fast")


def test_description_names_the_instruction_set(kernel):
    level = kernel.library.supple_level_name(kernel.library.supple_best_level()).decode()
    assert f"({level}" in f"({kernel.detail()})"
    assert "torch's threads" in kernel.detail()
