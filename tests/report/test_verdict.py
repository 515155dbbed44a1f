"""Verdicts at and around their boundaries."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from supple_lab.report.verdict import (
    claim_above,
    claim_below,
    claim_difference_above,
    claim_difference_below,
    claim_equal,
    claim_in_groups,
)
from supple_lab.results.results import Sample

PLAIN = {"claim": "it is so", "paper": "yes"}
WORDS = {**PLAIN, "quantity": "accuracy"}


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([0.68, 0.7, 0.72], "holds"),
        ([0.18, 0.2, 0.22], "fails"),
        ([0.1, 0.5, 0.9], "not decided"),
        ([0.5, 0.5, 0.5], "not decided"),  # on the boundary: neither side
        ([0.6, 0.7, 0.8], "not decided"),  # all above, but three seeds this far apart leave room below
        ([0.9], "not decided"),  # a single seed has no interval
        ([0.9, 0.9], "not decided"),  # two equal ones have a point for an interval
        ([0.3 + 0.6, 0.9], "not decided"),  # equal but for rounding
        ([0.9, 0.901], "holds"),
        ([0.9, float("nan"), 0.9], "not decided"),
        ([], "not run"),
    ],
)
def test_claim_above_is_decided_by_the_whole_interval(values, verdict):
    assert claim_above(np.array(values), 0.5, **WORDS).verdict == verdict


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([0.1, 0.11], "holds"),
        ([0.7, 0.71], "fails"),
        ([0.4, 0.6], "not decided"),
        ([0.1], "not decided"),
        ([], "not run"),
    ],
)
def test_claim_below_is_the_mirror_of_claim_above(values, verdict):
    row = claim_below(np.array(values), 0.5, **WORDS)
    mirror = claim_above(-np.array(values), -0.5, **WORDS)
    assert row.verdict == mirror.verdict == verdict


def test_row_says_what_was_measured_with_how_many_seeds():
    row = claim_above(np.array([0.6, 0.7, 0.8]), 0.5, **WORDS)
    assert row.measured == "0.700 ± 0.100: accuracy (above 0.5?)"
    assert row.n == 3
    assert row.interval == pytest.approx((0.4516, 0.9484), abs=1e-4)  # 4.303 * 0.1 / sqrt(3)


def test_two_equal_seeds_say_why_they_decide_nothing():
    row = claim_equal(sample(0.5, 0.5), sample(0.5, 0.5, name="b"), 0.05, quantity="gap", **PLAIN)
    assert (row.verdict, row.interval, row.chance) == ("not decided", None, 1.0)
    assert row.measured.endswith("two equal seeds have no spread, so not decided")
    assert claim_above(np.array([0.9, 0.9, 0.9]), 0.5, **WORDS).verdict == "holds"


@pytest.mark.parametrize(
    ("pair", "verdict"),
    [
        ((0.0, 1e-12), "not decided"),
        ((0.25, 0.25 + 1.5e-12), "fails"),
        ((1e6, 1e6 + 5e-7), "not decided"),  # the part in 1e12 is one of the numbers' own size
        ((1e6, 1e6 + 1.5e-6), "holds"),
    ],
)
def test_two_seeds_are_equal_up_to_one_part_in_a_million_million(pair, verdict):
    assert claim_above(np.array(pair), 0.5, **WORDS).verdict == verdict


@pytest.mark.parametrize("claim", [claim_above, claim_below])
def test_chance_is_the_p_value_of_students_test_at_the_threshold(claim):
    values = np.array([0.6, 0.7, 0.8])
    assert claim(values, 0.5, **WORDS).chance == pytest.approx(stats.ttest_1samp(values, 0.5).pvalue)


def test_equal_seeds_leave_no_chance_off_the_threshold_and_all_of_it_on_the_threshold():
    assert claim_above(np.full(3, 0.75), 0.5, **WORDS).chance == 0.0
    assert claim_above(np.full(3, 0.5), 0.5, **WORDS).chance == 1.0


def test_row_without_runs_measures_nothing():
    row = claim_below(np.array([]), 0.5, **WORDS)
    assert (row.measured, row.interval, row.n) == ("", None, 0)


def sample(*values, name="a"):
    return Sample(
        values=np.array(values, dtype=float),
        seeds=tuple(range(len(values))),
        runs=tuple(f"{name}{seed}" for seed in range(len(values))),
    )


def test_a_difference_is_decided_within_seeds_where_the_spread_between_them_is_large():
    one, other = sample(0.2, 0.5, 0.8), sample(0.1, 0.41, 0.69, name="b")
    assert claim_difference_above(one, other, quantity="accuracy", **PLAIN).verdict == "holds"
    assert claim_difference_below(one, other, quantity="accuracy", **PLAIN).verdict == "fails"
    assert claim_difference_above(one, other, 0.2, quantity="accuracy", **PLAIN).verdict == "fails"
    assert claim_above(one, 0.4, quantity="accuracy", **PLAIN).verdict == "not decided"


def test_a_claim_names_the_runs_it_rests_on():
    row = claim_difference_above(sample(0.2, 0.3), sample(0.1, 0.1, name="b"), quantity="accuracy", **PLAIN)
    assert row.runs == ("a0", "b0", "a1", "b1")
    assert row.n == 2
    assert claim_above(sample(0.5), 0.1, quantity="accuracy", **PLAIN).runs == ("a0",)


def test_section_and_study_are_kept():
    row = claim_above(np.array([0.5]), 0.1, section="5.1", study="trainability", **WORDS)
    assert (row.section, row.study) == ("5.1", "trainability")


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([0.001, -0.001, 0.0], "holds"),
        ([0.3, 0.31, 0.29], "fails"),
        ([-0.3, -0.31, -0.29], "fails"),
        ([0.0, 0.1, -0.1], "not decided"),  # the mean is zero, but the interval is wider than the margin
        ([0.05, 0.05, 0.05], "not decided"),  # on the boundary
        ([0.0], "not decided"),
        ([], "not run"),
    ],
)
def test_equality_is_decided_by_the_whole_interval(differences, verdict):
    zero = sample(*([0.0] * len(differences)), name="b")
    assert claim_equal(sample(*differences), zero, 0.05, quantity="gap", **PLAIN).verdict == verdict


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize(("mean", "verdict"), [(0.022, "fails"), (0.018, "holds")])
def test_the_chance_of_an_equality_is_that_of_the_nearer_edge(mean, verdict, sign):
    differences = sign * (mean + np.array([-0.0005, 0.0, 0.0005]))
    row = claim_equal(sample(*differences), sample(0.0, 0.0, 0.0, name="b"), 0.02, quantity="gap", **PLAIN)
    nearer = stats.ttest_1samp(differences, sign * 0.02).pvalue
    assert (row.verdict, row.chance) == (verdict, pytest.approx(nearer))
    assert stats.ttest_1samp(differences, -sign * 0.02).pvalue < nearer / 10


def test_a_diverged_run_leaves_a_claim_undecided_and_is_told():
    row = claim_above(sample(0.9, 0.9, float("nan")), 0.5, quantity="accuracy", **PLAIN)
    assert (row.verdict, row.n, row.interval) == ("not decided", 3, None)
    assert row.measured == ("0.900 ± 0.000: accuracy (above 0.5?); 1 of 3 without a value (diverged), so not decided")


@pytest.mark.parametrize(
    ("verdicts", "at_least", "verdict"),
    [
        (["holds", "holds", "fails"], 2, "holds"),
        (["holds", "fails", "fails"], 2, "fails"),
        (["holds", "not decided", "fails"], 2, "not decided"),
        (["holds", "not run", "fails"], 2, "not decided"),  # what was not run may yet hold
        (["not run", "fails", "fails"], 2, "fails"),
        (["not run", "not run", "not run"], 1, "not run"),
    ],
)
def test_groups_are_counted(verdicts, at_least, verdict):
    rows = {
        f"g{i}": replace(claim_above(sample(0.5, name=f"g{i}"), 0.1, quantity="q", **PLAIN), verdict=one)
        for i, one in enumerate(verdicts)
    }
    row = claim_in_groups(rows, at_least, **PLAIN)
    assert row.verdict == verdict
    assert set(row.runs) == {"g00", "g10", "g20"}
    if verdict != "not run":
        assert row.measured == f"holds in {verdicts.count('holds')} of 3 (at least {at_least}?)"
        assert [part.verdict for part in row.parts] == verdicts
    else:
        assert (row.measured, row.n) == ("", 0)


def test_a_claim_over_conditions_has_as_many_seeds_as_the_fewest_of_them_and_parts_name_their_runs():
    rows = {
        name: claim_above(sample(*values, name=name), 0.1, quantity="q", **PLAIN)
        for name, values in (("a", (0.5, 0.6, 0.7)), ("b", (0.5, 0.6)), ("c", ()))
    }
    row = claim_in_groups({**rows, "d": claim_in_groups(rows, 2, **PLAIN)}, 2, **PLAIN)
    assert row.n == 2
    named = {"a": ("a0", "a1", "a2"), "b": ("b0", "b1"), "c": ()}
    assert {part.name: part.runs for part in row.parts} == {**named, "d": ("a0", "a1", "a2", "b0", "b1")}
    assert {part.name: part.runs for part in row.parts[-1].parts} == named
