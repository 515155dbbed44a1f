"""Pre-activation shift: quartiles read at the right stages, histograms of several seeds as one."""

import numpy as np
import pytest
from made_runs import drawn, verdicts

from supple_lab.paper.preactivation_shift import PreactivationShift, mean_histogram
from supple_lab.paper.study import StudyOptions

STUDY = PreactivationShift()
PAPER = StudyOptions(scale="paper")
MEDIANS = {"dropout": (0.0, -20.0, -2500.0), "aid": (0.0, -15.0, -30.0)}  # at stages 1, 10 and 30


def as_in_the_paper(spec, **changed):
    """Medians as given at stages 1, 10 and 30 and 1e6 elsewhere, quartiles 5 below and above."""
    first, early, late = {**MEDIANS, **changed}[spec.method.name]
    median = np.full(30, 1e6)
    median[[0, 9, 29]] = first, early, late * (1 + 0.01 * spec.seed)
    quartiles = {"preactivation_q1": median - 5, "preactivation_q2": median, "preactivation_q3": median + 5}
    ends = {"preactivation_low": median - 50, "preactivation_high": median + 50}
    bins = {f"preactivation_bin_{place:02d}": [0.02] * 30 for place in range(50)}
    return quartiles | ends | bins


def decided(values_of, order=PAPER):
    return verdicts(STUDY, order, values_of)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, ["holds"] * 4),
        ({"aid": (0.0, -9.0, -30.0)}, ["fails", "holds", "holds", "holds"]),  # below the interquartile range of 10
        ({"dropout": (0.0, -3000.0, -2500.0)}, ["holds", "fails", "holds", "holds"]),  # it comes back
        ({"aid": (2500.0, 2480.0, 0.0)}, ["holds", "holds", "holds", "holds"]),  # further, but no further than Dropout
        ({"aid": (3000.0, 2980.0, 0.0)}, ["holds", "fails", "holds", "holds"]),
        ({"dropout": (0.0, -20.0, -1000.0)}, ["holds", "holds", "fails", "not decided"]),  # no drift to be bounded by
        ({"aid": (0.0, -15.0, -300.0)}, ["holds", "holds", "holds", "fails"]),
        ({"aid": (0.0, 15.0, 300.0)}, ["holds", "holds", "holds", "fails"]),  # to either side
    ],
)
def test_claims_hold_as_in_the_paper_and_each_fails_by_its_own_rule(changed, expected):
    assert decided(lambda spec: as_in_the_paper(spec, **changed)) == expected


def test_panels_are_the_papers():
    panels = drawn(STUDY, PAPER, as_in_the_paper).figures[0].panels
    found = [[(one.label, one.position, one.quartiles[1]) for one in panel.histograms] for panel in panels]
    assert found[0] == [("ReLU + Dropout", "stage 1", 0.0), ("ReLU + Dropout", "stage 10", -20.0)]
    assert found[1] == [("AID", "stage 1", 0.0), ("AID", "stage 10", -15.0)]
    assert [one[:2] for one in found[2]] == [("ReLU + Dropout", "stage 30"), ("AID", "stage 30")]
    assert {one.n for panel in panels for one in panel.histograms} == {5}


def record(low, high, bins):
    ends = {"preactivation_low": low, "preactivation_high": high}
    return ends | {f"preactivation_bin_{place:02d}": share for place, share in enumerate(bins)}


def test_histograms_of_different_ranges_are_averaged_where_their_values_lie():
    edges, shares = mean_histogram([record(0.0, 1.0, [0.02] * 50), record(1.0, 4.0, [0.02] * 50)])
    assert (edges[0], edges[-1], len(shares)) == (0.0, 4.0, 50)
    np.testing.assert_allclose(shares.sum(), 1.0)
    np.testing.assert_allclose(shares[:12], 0.5 * 0.08)  # a quarter of the range holds half of the values
    np.testing.assert_allclose(shares[13:], 0.5 * 0.08 / 3)


def test_values_that_are_all_equal_still_make_a_histogram():
    edges, shares = mean_histogram([record(-3.0, -3.0, [1.0, *[0.0] * 49])])
    assert (np.diff(edges) >= 0).all()
    assert np.isfinite(shares).all()
