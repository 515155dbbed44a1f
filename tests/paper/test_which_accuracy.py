"""Which accuracy: each of the four decides for itself, and runs record all of them without being changed by it."""

from dataclasses import replace

import pytest
from made_runs import made

from supple.methods import UseAID
from supple_lab.paper.study import StudyOptions
from supple_lab.paper.which_accuracy import ACCURACIES, UNDER_MASKS, WhichAccuracy
from supple_lab.run.run import execute
from supple_lab.scenarios.permuted_input import PermutedInput
from supple_lab.store.store import Store

PAPER = StudyOptions(scale="paper")
METRICS = tuple(ACCURACIES.values())
KEPT = {metric: f"which_accuracy_aid_keeps_{metric}" for metric in ACCURACIES.values()}


def verdicts(level_of, first_of=lambda method, metric: 0.95):
    """What the claims come to if each run begins and goes on where the functions say, by its method and the metric."""

    def rows(spec):
        name, number = spec.method.name, spec.problem.scenario.num_stages
        begin = level_of if name == "full_reset" else first_of
        levels = {metric: [begin(name, metric)] + [level_of(name, metric)] * (number - 1) for metric in METRICS}
        return {metric: [level + 1e-4 * spec.seed for level in own] for metric, own in levels.items()}

    claims = WhichAccuracy().draw(made(WhichAccuracy().specs(PAPER), rows), PAPER).claims
    return {own.key: claim.verdict for own, claim in zip(WhichAccuracy.claims, claims, strict=True)}


@pytest.mark.parametrize("lost", ACCURACIES.values())
def test_aid_is_judged_by_each_accuracy_alone(lost):
    levels = {"full_reset": 0.95, "aid": 0.94, "vanilla": 0.8, "dropout": 0.81}
    found = verdicts(lambda method, metric: 0.85 if (method, metric) == ("aid", lost) else levels[method])
    assert found == {
        "which_accuracy_vanilla_falls": "holds",
        **{key: "fails" if metric == lost else "holds" for metric, key in KEPT.items()},
        "which_accuracy_dropout_does_not_help": "holds",
        "which_accuracy_aid_above_vanilla": "holds",
    }


def test_dropout_that_leaves_less_than_half_and_a_vanilla_network_that_keeps_its_plasticity_fail():
    found = verdicts(lambda method, metric: {"dropout": 0.94, "vanilla": 0.8}.get(method, 0.95))
    assert found["which_accuracy_dropout_does_not_help"] == "fails"
    found = verdicts(lambda method, metric: 0.96 if method == "vanilla" else 0.95)
    assert (found["which_accuracy_vanilla_falls"], found["which_accuracy_aid_above_vanilla"]) == ("fails", "fails")


def test_what_masks_cost_from_the_first_stage_on_is_no_lost_plasticity():
    def level(method, metric):
        under_masks = method in ("aid", "dropout") and metric in UNDER_MASKS
        return 0.85 if under_masks else {"vanilla": 0.8, "dropout": 0.9}.get(method, 0.95)

    found = verdicts(level, first_of=level)
    assert {found[key] for key in KEPT.values()} == {"holds"}
    assert found["which_accuracy_dropout_does_not_help"] == "fails"  # of 0.15, it leaves 0.05, under masks nothing
    found = verdicts(level)
    assert [found[KEPT[metric]] for metric in METRICS] == ["fails", "fails", "holds", "holds"]


def test_the_two_further_accuracies_are_recorded_and_change_nothing_else(tmp_path):
    (with_all, *_) = [
        spec for spec in WhichAccuracy().specs(StudyOptions(scale="smoke")) if isinstance(spec.method, UseAID)
    ]
    scenario = replace(with_all.problem.scenario, tested=False)
    without = replace(with_all, problem=replace(with_all.problem, scenario=scenario, metrics=()))
    assert PermutedInput() == PermutedInput(tested=False)
    store, records = Store.create(tmp_path), []
    for spec in (with_all, without):
        execute(spec, store)
        records.append(store.folder(spec).stage_log.read())
    for ours, theirs in zip(*records, strict=True):
        assert ours.keys() - theirs.keys() == {"training_accuracy", "test_accuracy", "test_loss"}
        assert {name: ours[name] for name in theirs} == theirs
