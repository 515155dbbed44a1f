"""Class incremental: the paper's runs, differences to full reset, and its three claims decided by their rules."""

from collections import Counter

import numpy as np
import pytest
from made_records import made, verdicts, wavering

from supple_lab.paper.class_incremental import ClassIncremental
from supple_lab.paper.method_runs import quarters
from supple_lab.paper.study import StudyOptions
from supple_lab.paper.tables import best
from supple_lab.scenarios.class_incremental import ClassIncremental as Scenario

PAPER = StudyOptions(scale="paper")
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


def test_quarters_may_begin_later():
    assert [(part.start, part.stop) for part in quarters(10, start=1)] == [(1, 4), (4, 6), (6, 8), (8, 10)]


def test_all_claims_hold_on_the_papers_picture():
    assert verdicts(STUDY, made(STUDY.specs(PAPER), accuracies), PAPER) == ["holds"] * 3


def test_a_dropout_that_keeps_its_lead_fails_both_claims_on_it():
    results = made(STUDY.specs(PAPER), lambda spec: accuracies(spec, dropout=(0.05, 0.06), aid=(0.1, 0.08)))
    assert verdicts(STUDY, results, PAPER) == ["fails", "fails", "holds"]


@pytest.mark.parametrize(("cbp", "verdict"), [((0.04, 0.04), "holds"), ((0.2, -0.1), "fails")])  # AID: 0.1 to 0.05
def test_aid_must_lead_on_both_networks(cbp, verdict):
    behind = (-0.05, -0.05)
    results = made(STUDY.specs(PAPER), lambda spec: accuracies(spec, cbp=cbp if spec.model.name == "vgg16" else behind))
    assert verdicts(STUDY, results, PAPER)[2] == verdict


def bad_in_one_quarter(spec, method):
    """A method that is as good as full reset on average: in each seed one quarter, always another, is bad."""
    if spec.method.name != method:
        return accuracies(spec)
    leads = [-0.06 if quarter == spec.seed % 4 else 0.02 for quarter in range(4)]
    return [wavering(spec, RESET + lead) for lead in np.repeat(leads, 5)]


@pytest.mark.parametrize("method", ["cbp", "aid"])
def test_a_bad_quarter_in_each_seed_is_no_quarter_that_is_bad(method):
    results = made(STUDY.specs(PAPER), lambda spec: bad_in_one_quarter(spec, method))
    row = STUDY.draw(results, PAPER).claims[1]
    assert row.verdict == "not decided"
    aid, *others = row.parts
    assert (aid.name, len(others)) == ("AID (above throughout)", 10)
    assert [part.name[-11:] for part in aid.parts] == [f"(quarter {place})" for place in (1, 2, 3, 4)] * 2
    assert not any(part.parts for part in others)  # every other method in one sentence


def diverging(spec, method, seeds, **changed):
    is_lost = spec.method.name == method and spec.model.name == "resnet18" and spec.seed in seeds
    return [0.5, *[float("nan")] * 19] if is_lost else accuracies(spec, **changed)


def test_another_method_that_diverged_counts_where_it_ended_and_is_told():
    results = made(STUDY.specs(PAPER), lambda spec: diverging(spec, "cbp", {1}))
    row = STUDY.draw(results, PAPER).claims[1]
    told = next(part.measured for part in row.parts if part.name.startswith("CBP"))
    assert row.verdict == "holds"
    assert told.endswith("; ResNet-18 on CIFAR-100: diverged and lost there: CBP in 1 of 5 seeds")
    above_elsewhere = made(STUDY.specs(PAPER), lambda spec: diverging(spec, "cbp", {1}, cbp=(0.05, 0.05)))
    assert verdicts(STUDY, above_elsewhere, PAPER)[1] == "not decided"
    above = made(STUDY.specs(PAPER), lambda spec: accuracies(spec, cbp=(0.05, 0.05)))
    assert verdicts(STUDY, above, PAPER)[1] == "fails"


def test_the_quarter_that_a_method_ended_before_it_diverged_counts():
    def below_at_first(spec):
        if spec.method.name != "cbp" or spec.model.name != "resnet18":
            return accuracies(spec, cbp=(0.05, 0.05))
        later = float("nan") if spec.seed else RESET + 0.05
        return [*[wavering(spec, RESET - 0.05)] * 5, *[wavering(spec, later)] * 15]

    row = STUDY.draw(made(STUDY.specs(PAPER), below_at_first), PAPER).claims[1]
    assert next(part.verdict for part in row.parts if part.name.startswith("CBP")) == "holds"


def test_a_method_that_always_diverged_did_not_stay_above():
    results = made(STUDY.specs(PAPER), lambda spec: diverging(spec, "cbp", range(5), cbp=(0.05, 0.05)))
    assert verdicts(STUDY, results, PAPER)[1] == "holds"


def test_a_rival_that_diverged_in_most_seeds_and_leads_in_the_rest_fails_nothing():
    def values(spec):
        is_lost = spec.method.name == "l2" and spec.seed in {0, 3, 4}
        return [0.5, *[float("nan")] * 19] if is_lost else accuracies(spec, l2=(0.3, 0.3))

    assert verdicts(STUDY, made(STUDY.specs(PAPER), values), PAPER)[2] == "not decided"


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
    assert verdicts(STUDY, one, PAPER) == ["not decided"] * 3
    assert verdicts(STUDY, without, PAPER) == ["not run", "not run", "not decided"]


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
