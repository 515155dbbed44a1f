"""Verdicts at and around their boundaries."""

import numpy as np
import pytest

from supple_lab.report.verdict import claim_above, claim_below

WORDS = {"claim": "it is so", "paper": "yes", "quantity": "accuracy"}


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([0.68, 0.7, 0.72], "holds"),
        ([0.18, 0.2, 0.22], "fails"),
        ([0.1, 0.5, 0.9], "not decided"),
        ([0.5, 0.5, 0.5], "not decided"),  # on the boundary: neither side
        ([0.6, 0.7, 0.8], "not decided"),  # all above, but three seeds this far apart leave room below
        ([0.9], "not decided"),  # a single seed has no interval
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


def test_row_without_runs_measures_nothing():
    row = claim_below(np.array([]), 0.5, **WORDS)
    assert (row.measured, row.interval, row.n) == ("", None, 0)
