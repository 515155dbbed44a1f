"""Class incremental: differences to full reset, and its three claims decided by their rules."""

from collections import Counter

import numpy as np
import pytest
from made_runs import claims, drawn, verdicts, wavering

from supple_lab.paper.class_incremental import ClassIncremental
from supple_lab.paper.study import StudyOptions
from supple_lab.scenarios.class_incremental import ClassIncremental as Scenario

PAPER = StudyOptions(scale="paper")
STUDY = ClassIncremental()
RESET = 0.5


def accuracies(spec, **changed):
    """AID stays ahead of full reset, Dropout and DASH start ahead and fall behind, all others are behind."""
    leads = {"aid": (0.1, 0.05), "dropout": (0.05, -0.05), "dash": (0.05, -0.05), "full_reset": (0.0, 0.0), **changed}
    first, last = leads.get(spec.method.name, (-0.05, -0.05))
    return [wavering(spec, RESET + lead) for lead in np.linspace(first, last, 20)]


def test_a_replay_buffer_is_beside_the_paper():
    own = [spec for spec in STUDY.specs(PAPER) if spec.problem.scenario.replay]
    assert {spec.problem.scenario for spec in own} == {Scenario(replay=20)}
    assert Counter(spec.method.name for spec in own) == dict.fromkeys(("vanilla", "full_reset", "aid"), 5)


def on_vgg16(cbp):
    return lambda spec: accuracies(spec, cbp=cbp if spec.model.name == "vgg16" else (-0.05, -0.05))


def without(method):
    return lambda spec: None if spec.method.name == method else accuracies(spec)


def diverging(method, seeds, **changed):
    """The method diverges on ResNet-18 in these seeds."""

    def values(spec):
        is_lost = spec.method.name == method and spec.model.name == "resnet18" and spec.seed in seeds
        return [0.5, np.nan] if is_lost else accuracies(spec, **changed)

    return values


@pytest.mark.parametrize(
    ("values_of", "expected"),
    [
        (accuracies, ["holds", "holds", "holds", "fails"]),  # AID is above with a replay buffer, too
        (lambda spec: accuracies(spec, dropout=(0.05, 0.06), aid=(0.1, 0.08)), ["fails", "fails", "holds", "fails"]),
        (on_vgg16((0.04, 0.04)), ["holds", "holds", "holds", "fails"]),  # above reset on one network, but not on both
        (on_vgg16((0.2, -0.1)), ["holds", "holds", "fails", "fails"]),  # AID: 0.1 to 0.05
        (
            lambda spec: accuracies(spec, aid=(0.2, -0.05)),
            ["holds", "fails", "fails", "not decided"],
        ),  # not in every quarter
        (lambda spec: accuracies(spec, cbp=(0.05, 0.05)), ["holds", "fails", "holds", "fails"]),
        (diverging("cbp", {1}, cbp=(0.05, 0.05)), ["holds", "not decided", "holds", "fails"]),  # above where it ended
        (
            diverging("cbp", range(5), cbp=(0.05, 0.05)),
            ["holds", "holds", "holds", "fails"],
        ),  # always diverged: not above
        (diverging("l2", {0, 3, 4}, l2=(0.3, 0.3)), ["holds", "not decided", "fails", "fails"]),
        (lambda spec: accuracies(spec, aid=(0.2, -0.1)), ["holds", "fails", "fails", "holds"]),  # below vanilla at last
        (without("full_reset"), ["not run", "not run", "not decided", "fails"]),
    ],
)
def test_each_claim_is_decided_by_its_own_rule(values_of, expected):
    assert verdicts(STUDY, PAPER, values_of) == expected


@pytest.mark.parametrize("method", ["cbp", "aid"])
def test_a_bad_quarter_in_each_seed_is_no_quarter_that_is_bad(method):
    def values(spec):
        """As good as full reset on average: in each seed one quarter, always another, is bad."""
        leads = [-0.06 if quarter == spec.seed % 4 else 0.02 for quarter in range(4)]
        row = [wavering(spec, RESET + lead) for lead in np.repeat(leads, 5)]
        return row if spec.method.name == method else accuracies(spec)

    row = claims(STUDY, PAPER, values)[1]
    assert row.verdict == "not decided"
    aid, *others = row.parts
    assert (aid.name, len(others)) == ("AID (above throughout)", 10)
    assert [part.name[-11:] for part in aid.parts] == [f"(quarter {place})" for place in (1, 2, 3, 4)] * 2
    assert not any(part.parts for part in others)  # every other method in one sentence


def test_difference_is_taken_seed_by_seed_and_a_diverged_run_leaves_a_hole_in_it():
    (panel, *_) = drawn(STUDY, PAPER, diverging("aid", {1})).figures[0].panels
    aid = next(curve for curve in panel.curves if curve.method == "aid")
    assert aid.x.tolist() == list(range(1, 21))
    np.testing.assert_allclose(aid.values[[0, 2]], np.tile(np.linspace(0.1, 0.05, 20), (2, 1)), atol=1e-12)
    assert np.isnan(aid.values[1, 1:]).all()
    assert "full_reset" not in {curve.method for curve in panel.curves}
