"""Warm start: the gap seed by seed, and its three claims decided by their rules."""

import numpy as np
import pytest
from made_runs import drawn, verdicts, wavering

from supple.methods import DASH, Vanilla
from supple_lab.paper.study import StudyOptions
from supple_lab.paper.warm_start import WarmStart
from supple_lab.report.write import only_asked
from supple_lab.scenarios.stationary import Stationary

PAPER = StudyOptions(scale="paper")
STUDY = WarmStart()
GAPS = {"vanilla": 0.109, "dropout": 0.101, "aid": 0.033}


def accuracies(spec, *, dropout_gains=0.05, times=1.0, **changed):
    """The paper's gaps, or a share of them; Dropout's and AID's networks better by five points from either start."""
    cold = wavering(spec, 0.6) + (dropout_gains if spec.method.name == "dropout" else 0.0)
    if isinstance(spec.problem.scenario, Stationary):
        return cold
    return [0.3, cold - times * {**GAPS, **changed}[spec.method.name]]


def test_what_acts_between_stages_alone_has_its_cold_start_from_the_vanilla_network():
    order = StudyOptions(scale="paper", methods=("vanilla", "shrink_perturb", "dash"), num_seeds=3)
    specs = STUDY.specs(order)
    cold = [spec for spec in specs if isinstance(spec.problem.scenario, Stationary)]
    assert {spec.method for spec in cold} == {Vanilla()}
    assert len(cold) == 3
    assert len(specs) == 3 + 9
    assert {spec.method for spec in specs if spec.method.name == "dash"} == {DASH(alpha=0.1, floor=0.05)}  # Table 6
    (table,) = drawn(STUDY, order, lambda spec: accuracies(spec, shrink_perturb=0.05, dash=0.02)).tables
    gaps = {row[0]: row[table.header.index("gap")] for row in table.rows}
    assert (gaps["S&P"], gaps["DASH"]) == ("0.050 ± 0.000", "0.020 ± 0.000")


def test_the_vanilla_networks_cold_start_is_run_for_what_acts_between_stages_alone():
    order = StudyOptions(scale="paper", methods=("shrink_perturb", "dash"), num_seeds=3)
    cold = [spec for spec in STUDY.specs(order) if isinstance(spec.problem.scenario, Stationary)]
    assert [spec.method for spec in cold] == [Vanilla()] * 3
    (table,) = only_asked(drawn(STUDY, order, lambda spec: accuracies(spec, shrink_perturb=0.05, dash=0.02))).tables
    gaps = {row[0]: row[table.header.index("gap")] for row in table.rows}
    assert gaps == {"S&P": "0.050 ± 0.000", "DASH": "0.020 ± 0.000"}


def decided(order=PAPER, **changed):
    return verdicts(STUDY, order, lambda spec: accuracies(spec, **changed))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, ["holds"] * 3),
        ({"dropout": 0.109 * 0.74}, ["holds", "fails", "holds"]),  # a gap of its own
        ({"dropout": 0.109 * 1.26}, ["holds", "fails", "holds"]),
        ({"aid": 0.054}, ["holds", "holds", "holds"]),  # half of the vanilla network's: 0.0545
        ({"aid": 0.055}, ["holds", "holds", "fails"]),
        ({"dropout_gains": -0.01}, ["fails", "holds", "holds"]),
        ({"dropout_gains": 0.005, "dropout": 0.12}, ["fails", "holds", "holds"]),  # better from a cold start alone
    ],
)
def test_claims_hold_on_the_papers_gaps_and_each_fails_by_its_own_rule(changed, expected):
    assert decided(**changed) == expected


def test_table_and_bars_show_the_papers_gap_beside_ours():
    drawing = drawn(STUDY, PAPER, accuracies)
    assert drawing.tables[0].rows[2][3:] == ("0.033 ± 0.000", "0.033", "5")
    aid = drawing.figures[1].panels[0].bars[2]
    np.testing.assert_allclose(aid.middle, [0.033, 0.033])


def test_warm_curve_starts_with_all_data():
    curves = drawn(STUDY, PAPER, accuracies).figures[0].panels[0].curves
    warm = next(curve for curve in curves if curve.label == "AID, warm start")
    np.testing.assert_allclose(warm.middle, [0.6 - 0.033 + 0.002] * 2)  # the two epochs of the second stage alone
