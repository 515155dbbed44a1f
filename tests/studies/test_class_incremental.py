"""Class incremental: the paper's runs, differences to full reset, and its two claims decided by their rules."""

from collections import Counter

import numpy as np
import pytest
from made_records import made, verdicts, wavering

from supple_lab.scenarios.class_incremental import ClassIncremental as Scenario
from supple_lab.studies.class_incremental import ClassIncremental, quarters
from supple_lab.studies.hyperparameters import best
from supple_lab.studies.order import Order

PAPER = Order(scale="paper")
STUDY = ClassIncremental()
RESET = 0.5


def accuracies(spec, **changed):
    """AID stays ahead of full reset, Dropout and DASH start ahead and fall behind, all others are behind."""
    first, last = {
        "aid": (0.1, 0.05),
        "dropout": (0.05, -0.05),
        "dash": (0.05, -0.05),
        "full_reset": (0.0, 0.0),
        **changed,
    }.get(spec.method.name, (-0.05, -0.05))
    return [wavering(spec, RESET + lead) for lead in np.linspace(first, last, 20)]


def test_paper_scale_is_the_papers():
    specs = STUDY.specs(PAPER)
    assert {spec.problem.scenario for spec in specs} == {Scenario(num_stages=20, epochs=100, batch_size=256)}
    assert {spec.problem.dataset.name for spec in specs} == {"cifar100", "tiny_imagenet"}
    assert Counter(spec.model.name for spec in specs) == {"resnet18": 12 * 5, "vgg16": 12 * 3}
    for network in ("resnet18", "vgg16"):
        ran = [(spec.method, spec.optimizer) for spec in specs if spec.model.name == network and spec.seed == 0]
        assert ran == best("class_incremental", network)


@pytest.mark.parametrize(
    ("num_stages", "parts"),
    [(20, [(0, 5), (5, 10), (10, 15), (15, 20)]), (5, [(0, 2), (2, 3), (3, 4), (4, 5)]), (2, [(0, 1), (1, 2)])],
)
def test_quarters_cover_the_stages(num_stages, parts):
    assert [(part.start, part.stop) for part in quarters(num_stages)] == parts


def test_both_claims_hold_on_the_papers_picture():
    assert verdicts(STUDY, made(STUDY.specs(PAPER), accuracies), PAPER) == ["holds", "holds"]


def test_a_dropout_that_keeps_its_lead_fails_both():
    results = made(STUDY.specs(PAPER), lambda spec: accuracies(spec, dropout=(0.05, 0.06)))
    assert verdicts(STUDY, results, PAPER) == ["fails", "fails"]


def test_a_method_may_stay_above_on_one_network_but_not_on_both():
    results = made(
        STUDY.specs(PAPER),
        lambda spec: accuracies(spec, cbp=(0.05, 0.05) if spec.model.name == "vgg16" else (-0.05, -0.05)),
    )
    assert verdicts(STUDY, results, PAPER)[1] == "holds"


def test_aid_must_stay_above_in_every_quarter():
    results = made(STUDY.specs(PAPER), lambda spec: accuracies(spec, aid=(0.2, -0.05)))
    assert verdicts(STUDY, results, PAPER)[1] == "fails"


def test_one_seed_decides_nothing_and_no_reset_runs_nothing():
    one = made(STUDY.specs(PAPER), lambda spec: accuracies(spec) if spec.seed == 0 else None)
    without = made(STUDY.specs(PAPER), lambda spec: None if spec.method.name == "full_reset" else accuracies(spec))
    assert verdicts(STUDY, one, PAPER) == ["not decided", "not decided"]
    assert verdicts(STUDY, without, PAPER) == ["not run", "not run"]


def test_difference_is_taken_seed_by_seed():
    results = made(STUDY.specs(PAPER), accuracies)
    panel = STUDY.draw(results, PAPER).figures[0].panels[0]
    aid = next(curve for curve in panel.curves if curve.method == "aid")
    assert aid.x.tolist() == list(range(1, 21))
    np.testing.assert_allclose(aid.values, np.tile(np.linspace(0.1, 0.05, 20), (5, 1)), atol=1e-12)
    assert "full_reset" not in {curve.method for curve in panel.curves}


def test_a_diverged_run_leaves_a_hole_in_its_difference():
    results = made(
        STUDY.specs(PAPER),
        lambda spec: (
            [0.5, float("nan")] + [0.5] * 18 if spec.method.name == "aid" and spec.seed == 1 else accuracies(spec)
        ),
    )
    panel = STUDY.draw(results, PAPER).figures[0].panels[0]
    aid = next(curve for curve in panel.curves if curve.method == "aid")
    assert np.isnan(aid.values[1, 1:]).all()
    assert np.isfinite(aid.values[0]).all()
    assert verdicts(STUDY, results, PAPER)[1] == "not decided"
