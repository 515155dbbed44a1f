"""Warm start: the paper's runs, the gap seed by seed, and its two claims decided by their rules."""

from collections import Counter

import numpy as np
import pytest
from made_records import made, verdicts, wavering

from supple.methods.activations import UseAID, UseDropout
from supple.methods.vanilla import Vanilla
from supple_lab.data.cifar100 import CIFAR100
from supple_lab.models.resnet18 import ResNet18
from supple_lab.runs.optimizer import Adam
from supple_lab.scenarios.stationary import Stationary
from supple_lab.scenarios.warm_start import WarmStart as Warm
from supple_lab.studies.order import Order
from supple_lab.studies.warm_start import WarmStart

PAPER = Order(scale="paper")
STUDY = WarmStart()
GAPS = {"vanilla": 0.109, "dropout": 0.101, "aid": 0.033}


def accuracies(spec, **changed):
    if isinstance(spec.problem.scenario, Stationary):
        return wavering(spec, 0.6)
    return [0.3, wavering(spec, 0.6 - {**GAPS, **changed}[spec.method.name])]


def test_paper_scale_is_the_papers():
    specs = STUDY.specs(PAPER)
    warm = Warm(share=0.1, warm_epochs=1000, epochs=100, batch_size=256)
    cold = Stationary(epochs=100, milestones=(), batch_size=256)
    assert Counter(spec.problem.scenario for spec in specs) == {warm: 15, cold: 15}
    assert {(spec.model, spec.problem.dataset) for spec in specs} == {(ResNet18(width=64), CIFAR100())}
    assert {spec.optimizer for spec in specs} == {Adam(learning_rate=1e-3)}
    assert {spec.method for spec in specs} == {Vanilla(), UseDropout(drop_positive=0.3), UseAID(relu_prob=0.7)}


def test_both_claims_hold_on_the_papers_gaps():
    assert verdicts(STUDY, made(STUDY.specs(PAPER), accuracies), PAPER) == ["holds", "holds"]


def test_a_dropout_that_closes_the_gap_fails_its_claim_alone():
    results = made(STUDY.specs(PAPER), lambda spec: accuracies(spec, dropout=0.04))
    assert verdicts(STUDY, results, PAPER) == ["fails", "holds"]


@pytest.mark.parametrize(("gap", "verdict"), [(0.07, "holds"), (0.072, "fails")])
def test_aid_must_close_more_than_half_of_the_papers_difference(gap, verdict):
    results = made(STUDY.specs(PAPER), lambda spec: accuracies(spec, aid=gap))
    assert verdicts(STUDY, results, PAPER)[1] == verdict  # 0.109 - 0.071 = 0.038


def test_without_the_warm_runs_there_is_no_gap():
    results = made(STUDY.specs(PAPER), lambda spec: None if spec.problem.scenario.name == "warm_start" else 0.6)
    assert verdicts(STUDY, results, PAPER) == ["not run", "not run"]


def test_one_seed_decides_nothing():
    results = made(STUDY.specs(PAPER), lambda spec: accuracies(spec) if spec.seed == 0 else None)
    assert verdicts(STUDY, results, PAPER) == ["not decided", "not decided"]


def test_table_and_bars_show_the_papers_gap_beside_ours():
    drawing = STUDY.draw(made(STUDY.specs(PAPER), accuracies), PAPER)
    assert drawing.tables[0].rows[2][3:] == ("0.033 ± 0.000", "0.033", "5")
    aid = drawing.figures[1].panels[0].bars[2]
    np.testing.assert_allclose(aid.middle, [0.033, 0.033])


def test_warm_curve_starts_with_all_data():
    curves = STUDY.draw(made(STUDY.specs(PAPER), accuracies), PAPER).figures[0].panels[0].curves
    warm = next(curve for curve in curves if curve.label == "AID, warm start")
    np.testing.assert_allclose(warm.middle, [0.6 - 0.033 + 0.002] * 2)  # the two epochs of the second stage alone
