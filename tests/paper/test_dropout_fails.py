"""Why Dropout fails: slopes over the drop rates by hand, and warm_start's runs beside them."""

import numpy as np
import pytest
from made_runs import drawn, made, verdicts

from supple_lab.paper.dropout_fails import DropoutFails, network_condition, slope, variant_of
from supple_lab.paper.method_runs import MethodRuns
from supple_lab.paper.study import StudyOptions
from supple_lab.paper.warm_start import WarmStart

STUDY = DropoutFails()
PAPER = StudyOptions(scale="paper")
TWO_STAGES = StudyOptions(scale="smoke", num_seeds=3)


def rate_of(spec):
    return {"vanilla": 0.0, "aid": None}.get(spec.method.name, getattr(spec.method, "drop_positive", None))


FRESH = 0.9
ALL = ("online_accuracy", "train_accuracy", "subnetwork_accuracy")


def as_in_the_paper(spec, *, slope=0.6, aid=0.01):
    """Falls of 0.1 plus the slope times the rate, AID's next to none; subnetworks fall as their networks do."""
    if spec.problem.scenario.name != "random_label":
        accuracies = [0.3, 0.5 + 0.001 * spec.seed][-spec.problem.scenario.num_stages :]
        return {"test_accuracy": accuracies}
    fall = aid if spec.method.name == "aid" else 0.1 + slope * (rate_of(spec) or 0.0)
    return of_all([FRESH, FRESH - fall + 0.001 * spec.seed], spec)


def of_all(row, spec):
    """The same values for all accuracies, as many as the run has stages: the reference has one."""
    return dict.fromkeys(ALL, row[: spec.problem.scenario.num_stages])


def decided(values_of):
    return verdicts(STUDY, TWO_STAGES, values_of)


def test_the_other_runs_are_those_of_warm_start():
    for scale in ("smoke", "quick", "paper"):
        own = {
            spec.run_id
            for spec in STUDY.specs(StudyOptions(scale=scale))
            if spec.problem.scenario.name != "random_label"
        }
        assert own == {spec.run_id for spec in WarmStart().specs(StudyOptions(scale=scale))}


def test_slope_is_that_of_the_losses_over_the_rates():
    order = TWO_STAGES
    results = made(STUDY.specs(order), lambda spec: as_in_the_paper(spec, slope=0.4))
    by_variant = network_condition(order).of(results, order).group_by(variant_of)
    found = slope(MethodRuns(by_variant, metric="train_accuracy"))
    np.testing.assert_allclose(found.values, [0.2] * 3)  # the mean of two stages loses half of the fall
    assert len(found.runs) == 12


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, ["holds"] * 3),
        ({"slope": -0.01}, ["fails", "fails", "holds"]),
        ({"slope": -0.19}, ["fails", "fails", "holds"]),  # nothing lost at the highest rate, either
        ({"aid": 0.06}, ["holds", "holds", "fails"]),
        ({"aid": 0.035}, ["holds", "holds", "not decided"]),  # between both bounds
    ],
)
def test_claims_hold_as_in_the_paper_and_each_fails_by_its_own_rule(changed, expected):
    assert decided(lambda spec: as_in_the_paper(spec, **changed)) == expected


def test_degradation_is_against_the_first_stage_and_rates_have_lines_of_their_own():
    network, subnetworks, starts = drawn(STUDY, TWO_STAGES, as_in_the_paper).figures[0].panels
    assert [curve.label for curve in network.curves] == ["ReLU", "Dropout 0.1", "Dropout 0.3", "Dropout 0.5", "AID"]
    np.testing.assert_allclose(network.curves[3].middle, [0.0, -0.4 + 0.001])
    np.testing.assert_allclose(subnetworks.curves[0].middle, [0.9, 0.8 + 0.001])
    assert [bar.label for bar in starts.bars] == ["ReLU", "Dropout 0.3", "AID"]
    np.testing.assert_allclose(starts.bars[0].middle, [0.501, 0.501])
