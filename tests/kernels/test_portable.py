"""The kernel in plain torch obeys every law, on both of its ways to draw, and leaves other laws to the reference."""

import math

import laws
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from supple.kernels import bernoulli, portable
from supple.kernels.base import Intervals
from supple.kernels.bernoulli import bernoulli_words, rare_places, spread
from supple.kernels.portable import PortableKernel, two_branches
from supple.kernels.reference import ReferenceKernel

AID_90, AID_30 = (Intervals((0.0,), (p, 1.0 - p)) for p in (0.9, 0.3))
DROP_RELU, RELU_DROPOUT = Intervals((0.0,), (0.95, 0.0)), Intervals((0.0,), (1.0, 0.5), 2.0)
DROPOUT, RELU = Intervals((0.0,), (0.3, 0.3), 1.0 / 0.7), Intervals((0.0,), (1.0, 0.0))
ONE_DRAW = pytest.mark.parametrize("intervals", [AID_90, AID_30, DROP_RELU, RELU_DROPOUT, DROPOUT, RELU], ids=str)
EVERY_DTYPE = pytest.mark.parametrize("dtype", laws.DTYPES, ids=str)
BOTH_WAYS = pytest.mark.parametrize("rare", [0.0, 1.0], ids=["blend", "exceptions"])


@EVERY_DTYPE
@pytest.mark.parametrize("law", laws.EVERY_DTYPE, ids=lambda law: law.__name__.removeprefix("check_"))
def test_portable_kernel_obeys_the_law_in_every_dtype(law, dtype):
    law(PortableKernel(), dtype=dtype)


@BOTH_WAYS
@pytest.mark.parametrize("law", laws.ONE_DTYPE, ids=lambda law: law.__name__.removeprefix("check_"))
def test_portable_kernel_obeys_the_law_both_ways(law, rare, monkeypatch):
    monkeypatch.setattr(portable, "RARE", rare)
    law(PortableKernel())


def test_rates_that_sum_to_one_as_typed_are_those_of_aid():
    assert two_branches(Intervals((0.0,), (0.9, 0.1))) == two_branches(AID_90)


@BOTH_WAYS
@pytest.mark.parametrize("p", [0.9, 0.5, 0.3])
def test_under_one_mask_of_aid_either_an_input_passes_or_its_negative(p, rare, monkeypatch):
    monkeypatch.setattr(portable, "RARE", rare)
    x = torch.randn(10_001)
    one, other = (laws.draw(PortableKernel(), z, Intervals((0.0,), (p, 1.0 - p)), seed=7) for z in (x, -x))
    assert torch.equal(one - other, x)


@BOTH_WAYS
@EVERY_DTYPE
@ONE_DRAW
def test_each_sign_is_kept_at_its_rate_both_ways(intervals, dtype, rare, monkeypatch):
    monkeypatch.setattr(portable, "RARE", rare)
    for value, drop in zip((-2.0, 2.0), intervals.drop, strict=True):
        x = torch.full((300_001,), value, dtype=dtype)
        y = laws.draw(PortableKernel(), x, intervals, seed=5)
        share = (y != 0).double().mean().item()
        assert abs(share - (1.0 - drop)) <= 5 * laws.sigma(drop, len(x)), f"x={value}: kept {share}"
        assert torch.equal(y[y != 0], (x * intervals.scale)[y != 0])


@BOTH_WAYS
@ONE_DRAW
def test_special_numbers_are_kept_whole_or_dropped_to_zero(intervals, rare, monkeypatch):
    monkeypatch.setattr(portable, "RARE", rare)
    x = torch.tensor([laws.NAN, laws.INF, -laws.INF, 0.0, -0.0]).repeat(2000)
    nan, positive, negative, *zeros = laws.draw(PortableKernel(), x, intervals, seed=6).view(-1, 5).unbind(1)
    assert nan.isnan().all()
    for values, kept, drop in ((negative, -laws.INF, intervals.drop[0]), (positive, laws.INF, intervals.drop[1])):
        assert set(values.tolist()) == {0.0: {kept}, 1.0: {0.0}}.get(drop, {kept, 0.0})
    assert not any(zero.any() for zero in zeros)


def test_masks_do_not_depend_on_the_thread_count():
    laws.check_thread_count_changes_nothing(PortableKernel())


@pytest.mark.parametrize("intervals", [AID_30, Intervals((-1.0, 0.5), (0.1, 0.4, 0.8))], ids=str)
def test_law_of_more_draws_is_left_to_the_reference(intervals):
    two_rates = Intervals(intervals.edges, (0.25, *intervals.drop[1:]))
    x = torch.randn(1000)
    assert two_branches(two_rates) is None
    expected = laws.draw(ReferenceKernel(), x, two_rates, seed=1)
    assert torch.equal(laws.draw(PortableKernel(), x, two_rates, seed=1), expected)


def test_tensors_without_memory_go_to_the_reference():
    with FakeTensorMode():
        x = torch.empty(5, 3)
        assert PortableKernel().drop(x, AID_90, generator=None, out=None).shape == (5, 3)
        assert PortableKernel().gate(x, x, 2.0).shape == (5, 3)


@pytest.mark.parametrize("rate", [1e-6, 1e-3, 0.1, 0.5])
def test_rare_places_come_at_their_rate_and_independently(rate):
    n = 4_000_000
    places = rare_places(n, rate, generator=torch.Generator().manual_seed(3))
    assert (places.diff() > 0).all()
    assert 0 <= places.min() <= places.max() < n
    assert abs(len(places) / n - rate) < 5 * laws.sigma(rate, n)
    mask = torch.zeros(n, dtype=torch.float64)
    mask[places] = 1.0
    for lag in (1, 2, 3, 64, 1000):
        assert abs(laws.correlation(mask[lag:], mask[:-lag], rate)) < 5 / math.sqrt(n - lag), f"lag {lag}"


def test_too_few_gaps_are_followed_by_more(monkeypatch):
    whole = bernoulli.geometric_gaps

    def three_gaps(num_gaps: int, rate: float, *, longest: int, generator: torch.Generator | None) -> torch.Tensor:
        return whole(3, rate, longest=longest, generator=generator)

    monkeypatch.setattr(bernoulli, "geometric_gaps", three_gaps)
    n, rate = 20_000, 0.1
    places = rare_places(n, rate, generator=torch.Generator().manual_seed(5))
    assert abs(len(places) / n - rate) < 5 * laws.sigma(rate, n)
    assert places[-1] > 0.99 * n
    assert (places.diff() > 0).all()


def test_rate_too_small_for_any_place_draws_none():
    assert len(rare_places(1000, 1e-300, generator=None)) == 0
    assert len(rare_places(0, 0.5, generator=None)) == 0


def test_rate_below_the_first_places_is_not_cut_off():
    rate, num_words = 1.5 * 2.0**-14, 400_000
    words = bernoulli_words(num_words, rate, generator=torch.Generator().manual_seed(7))
    share = (words.unsqueeze(1) >> torch.arange(64) & 1).double().mean().item()
    assert abs(share - rate) < 5 * laws.sigma(rate, 64 * num_words)


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64], ids=str)
def test_spread_uses_each_bit_once(dtype):
    for bit in range(64):
        word = torch.tensor([1 << bit if bit < 63 else -(2**63), 0])
        assert sorted(spread(word, dtype).tolist()) == [-1] + [0] * 127
