"""Pre-activation shift: the paper's runs, quartiles read at the right stages, histograms of several seeds as one."""

from dataclasses import replace

import numpy as np
import pytest
from made_stages import made_stages, verdicts

from supple.methods.activations import UseAID, UseDropout
from supple.metrics.preactivation import PreactivationHistogram, PreactivationQuartiles
from supple_lab.data.idx import MNIST
from supple_lab.models.mlp import MLP
from supple_lab.optimizer import Adam
from supple_lab.paper.preactivation_shift import PreactivationShift, mean_histogram
from supple_lab.paper.study import StudyOptions
from supple_lab.scenarios.random_label import RandomLabel

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
    return verdicts(STUDY, made_stages(STUDY.specs(order), values_of), order)


def test_paper_scale_is_the_papers():
    specs = STUDY.specs(PAPER)
    (problem,) = {spec.problem for spec in specs}
    assert problem.scenario == RandomLabel(num_stages=30, epochs=100, batch_size=64, num_images=1400)
    assert problem.dataset == MNIST()
    assert problem.metrics == (PreactivationQuartiles(), PreactivationHistogram(num_bins=50))
    assert problem.metrics_every == 1
    assert {spec.model for spec in specs} == {MLP(width=512, num_hidden=7)}
    assert {spec.optimizer for spec in specs} == {Adam(learning_rate=1e-3)}
    assert {spec.method for spec in specs} == {UseDropout(drop_positive=0.1), UseAID(relu_prob=0.9)}
    assert len(specs) == 2 * 5


def test_all_claims_hold_on_medians_as_the_paper_describes_them():
    assert decided(as_in_the_paper) == ["holds"] * 4


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"aid": (0.0, -9.0, -30.0)}, ["fails", "holds", "holds", "holds"]),  # below the interquartile range of 10
        ({"dropout": (0.0, -3000.0, -2500.0)}, ["holds", "fails", "holds", "holds"]),  # it comes back
        ({"aid": (2500.0, 2480.0, 0.0)}, ["holds", "holds", "holds", "holds"]),  # further, but no further than Dropout
        ({"aid": (3000.0, 2980.0, 0.0)}, ["holds", "fails", "holds", "holds"]),
        ({"dropout": (0.0, -20.0, -1000.0)}, ["holds", "holds", "fails", "not decided"]),  # no drift to be bounded by
        ({"aid": (0.0, -15.0, -300.0)}, ["holds", "holds", "holds", "fails"]),
        ({"aid": (0.0, 15.0, 300.0)}, ["holds", "holds", "holds", "fails"]),  # to either side
    ],
)
def test_each_claim_fails_by_its_own_rule(changed, expected):
    assert decided(lambda spec: as_in_the_paper(spec, **changed)) == expected


@pytest.mark.parametrize(("length", "early"), [(20, "holds"), (9, "not decided")])
def test_runs_that_diverge_before_stage_30_leave_it_open_and_count_up_to_stage_10_if_they_have_it(length, early):
    def cut(spec):
        return {name: row[:length] for name, row in as_in_the_paper(spec).items()}

    assert decided(cut) == [early, *["not decided"] * 3]


@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_where_dropout_did_not_drift_nobody_fails_to_stay_closer_to_zero(scale):
    order, medians = StudyOptions(scale=scale), {"dropout": (0.0, -20.0, -2.0), "aid": (0.0, -15.0, -1.0)}
    results = made_stages(STUDY.specs(order), lambda spec: as_in_the_paper(spec, **medians))
    row = STUDY.draw(results, order).claims[3]
    assert row.verdict == "not decided"
    assert "Dropout's median is not below -1250" in row.brief


@pytest.mark.parametrize(("late", "bounded"), [(-2500.0, "holds"), (-250.0, "not decided")])
def test_the_papers_number_decides_at_its_own_scale_alone(late, bounded):
    quick = StudyOptions(scale="quick")
    medians = {"dropout": (0.0, -20.0, late), "aid": (0.0, -15.0, 1.0)}
    results = made_stages(STUDY.specs(quick), lambda spec: as_in_the_paper(spec, **medians))
    rows = STUDY.draw(results, quick).claims
    assert [row.verdict for row in rows] == ["holds", "holds", "not decided", bounded]
    assert "the paper's number belongs to the paper's scale" in rows[2].measured
    assert rows[2].interval is not None


def test_smoke_scale_has_no_stage_30_to_decide():
    order = StudyOptions(scale="smoke", num_seeds=3)
    two = made_stages(STUDY.specs(order), lambda spec: {k: row[:2] for k, row in as_in_the_paper(spec).items()})
    assert verdicts(STUDY, two, order) == ["not run"] * 4


def test_panels_are_the_papers():
    panels = STUDY.draw(made_stages(STUDY.specs(PAPER), as_in_the_paper), PAPER).figures[0].panels
    found = [[(one.label, one.position, one.quartiles[1]) for one in panel.histograms] for panel in panels]
    assert found[0] == [("ReLU + Dropout", "stage 1", 0.0), ("ReLU + Dropout", "stage 10", -20.0)]
    assert found[1] == [("AID", "stage 1", 0.0), ("AID", "stage 10", -15.0)]
    assert [(label, position) for label, position, _ in found[2]] == [
        ("ReLU + Dropout", "stage 30"),
        ("AID", "stage 30"),
    ]
    assert {one.n for panel in panels for one in panel.histograms} == {5}


def test_runs_of_another_version_count_for_nothing():
    specs = STUDY.specs(PAPER)
    older = [
        replace(spec, problem=replace(spec.problem, scenario=replace(spec.problem.scenario, epochs=20)))
        for spec in specs
    ]
    expected = STUDY.draw(made_stages(specs, as_in_the_paper), PAPER)
    both = STUDY.draw(made_stages([*older, *specs], as_in_the_paper), PAPER)
    assert (both.tables, both.claims) == (expected.tables, expected.claims)
    assert {one.n for panel in both.figures[0].panels for one in panel.histograms} == {5}


def test_histograms_of_different_ranges_are_averaged_where_their_values_lie():
    def record(low, high):
        return {"preactivation_low": low, "preactivation_high": high} | {
            f"preactivation_bin_{place:02d}": 0.02 for place in range(50)
        }

    edges, shares = mean_histogram([record(0.0, 1.0), record(1.0, 4.0)])
    assert (edges[0], edges[-1], len(shares)) == (0.0, 4.0, 50)
    np.testing.assert_allclose(shares.sum(), 1.0)
    np.testing.assert_allclose(shares[:12], 0.5 * 0.08)  # a quarter of the range holds half of the values
    np.testing.assert_allclose(shares[13:], 0.5 * 0.08 / 3)


def test_values_that_are_all_equal_still_make_a_histogram():
    record = {"preactivation_low": -3.0, "preactivation_high": -3.0} | {
        f"preactivation_bin_{place:02d}": float(place == 0) for place in range(50)
    }
    edges, shares = mean_histogram([record])
    assert (np.diff(edges) >= 0).all()
    assert np.isfinite(shares).all()
