"""Means over seeds and their intervals, against scipy."""

import numpy as np
import pytest
from scipy import stats

from supple_lab.results.intervals import (
    SEED,
    bootstrap_interval,
    bootstrap_intervals,
    format_mean,
    mean_and_std,
    mean_interval,
)

SEEDS = {
    "five": np.array([0.91, 0.88, 0.95, 0.90, 0.79]),
    "twelve": np.random.default_rng(1).normal(size=12),
    "skewed": np.random.default_rng(2).exponential(size=20),
}


@pytest.mark.parametrize("values", SEEDS.values(), ids=SEEDS)
def test_interval_equals_scipys(values):
    theirs = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert mean_interval(values) == pytest.approx(tuple(theirs))


def test_intervals_of_several_looks_share_what_may_be_missed():
    theirs = stats.ttest_1samp(SEEDS["five"], 0.0).confidence_interval(1.0 - 0.05 / 7)
    assert mean_interval(SEEDS["five"], looks=7) == pytest.approx(tuple(theirs))


@pytest.mark.parametrize("num_seeds", [2, 3, 5])
def test_interval_covers_the_mean_as_often_as_it_says(num_seeds):
    draws = np.random.default_rng(0).normal(loc=0.3, size=(4000, num_seeds))
    covered = np.mean([low < 0.3 < high for low, high in map(mean_interval, draws)])
    assert abs(covered - 0.95) < 5 * np.sqrt(0.95 * 0.05 / 4000)


@pytest.mark.parametrize("values", SEEDS.values(), ids=SEEDS)
def test_bootstrap_interval_is_scipys(values):
    ours = bootstrap_interval(values, np.random.default_rng(0))
    theirs = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=10_000, rng=np.random.default_rng(1))
    # An end's error is that of a 2.5% quantile of 10,000 draws, over the density there (a normal's), in both.
    error = np.sqrt(0.025 * 0.975 / 10_000) / stats.norm.pdf(1.96) * theirs.standard_error
    assert ours == pytest.approx(tuple(theirs.confidence_interval), abs=5 * np.sqrt(2) * error)
    assert ours == bootstrap_interval(values, np.random.default_rng(0))


def test_bootstrap_over_few_seeds_is_narrower_than_students_interval():
    low, high = bootstrap_interval(SEEDS["five"], np.random.default_rng(0))
    wide_low, wide_high = mean_interval(SEEDS["five"])
    assert wide_low < low < high < wide_high


def test_a_shown_mean_has_the_samples_deviation_and_carries_its_bootstrap_interval():
    values = SEEDS["five"]
    assert mean_and_std(values) == pytest.approx((values.mean(), stats.tstd(values)))
    assert [format_mean(np.array(some)) for some in ([0.5], [0.4, 0.6])] == ["0.500", "0.500 ± 0.141"]
    assert format_mean(values).interval == bootstrap_interval(values, np.random.default_rng(SEED))
    assert format_mean(values[:1]).interval is None
    assert bootstrap_interval(np.array([0.4, 0.6]), np.random.default_rng(0)) == (0.4, 0.6)  # 1 in 4 has a seed twice


@pytest.mark.parametrize("number", [0, 1])
def test_fewer_than_two_seeds_have_no_interval(number):
    assert mean_interval(np.ones(number)) is None
    assert bootstrap_interval(np.ones(number), np.random.default_rng(0)) is None


def test_bootstrap_draws_ten_thousand_resamples_unless_told_otherwise():
    generators = [np.random.default_rng(0) for _ in range(2)]
    bootstrap_interval(SEEDS["five"], generators[0])
    generators[1].integers(5, size=(10_000, 5))
    assert generators[0].random() == generators[1].random()


def test_intervals_at_many_positions_are_those_of_each_and_none_where_a_value_is_missing():
    values = np.random.default_rng(3).normal(size=(4, 600))
    values[1, 5] = np.nan
    low, high = bootstrap_intervals(values, np.random.default_rng(0))
    assert low.shape == high.shape == (600,)
    assert np.flatnonzero(np.isnan(low + high)).tolist() == [5]
    for place in (0, 255, 256, 599):
        alone = bootstrap_interval(values[:, place], np.random.default_rng(0))
        assert (low[place], high[place]) == pytest.approx(alone)
