"""Why AID: entries are tuned alike and apart from what is scored, and each rule follows the runs."""

from collections import Counter

import numpy as np
import pytest
from made_runs import made

from supple_lab.codec import encode
from supple_lab.models.cnn import CNN
from supple_lab.models.mlp import MLP
from supple_lab.paper import why_aid_entries
from supple_lab.paper.study import StudyOptions, settings_of
from supple_lab.paper.why_aid import WhyAID, selections
from supple_lab.paper.why_aid_entries import ENTRIES, PROTOCOLS, WITH_STRENGTH, arms
from supple_lab.results.results import Results

TUNING = StudyOptions(scale="full", search=True)
FULL = StudyOptions(scale="full")
KEYS = [claim.key.removeprefix("why_aid_") for claim in WhyAID.claims]


@pytest.fixture
def chosen(monkeypatch):
    """As if the second setting of every entry had been chosen, or the only one."""
    found = {
        arm.label: {
            entry: dict(zip(("method", "optimizer"), map(encode, settings_of(entry, arm.grid())[:2][-1]), strict=True))
            for entry in arm.protocol.entries
        }
        for arm in arms("full")
    }
    monkeypatch.setattr(why_aid_entries, "choices", lambda: {"full": found})


def test_every_entry_of_an_arm_has_as_many_settings_all_different():
    for arm in arms("full"):
        grid = arm.grid()
        assert len(set(grid)) == len(grid)
        numbers = Counter(setting.method.name for setting in grid)
        assert set(numbers) == set(arm.protocol.entries)
        tuned = {number for entry, number in numbers.items() if entry in WITH_STRENGTH or arm.protocol.tunes_rate}
        assert tuned == {8 if isinstance(arm.protocol.tasks["full"].model, CNN) else 4}


def test_rate_on_mnist_is_the_one_at_which_relu_is_known_to_lose():
    rates = {spec.optimizer.learning_rate for spec in WhyAID().specs(TUNING) if isinstance(spec.model, MLP)}
    assert rates == {1e-3}


def test_tuning_seeds_are_not_scored_and_pools_are_of_one_kind_in_an_arm(chosen):
    tuning, scored = WhyAID().specs(TUNING), WhyAID().specs(FULL)
    assert {spec.seed for spec in tuning} == {1000}
    assert {spec.seed for spec in scored} == {0, 1, 2, 3, 4}
    pools = Counter((spec.problem.scenario.name, spec.model.pool) for spec in tuning if isinstance(spec.model, CNN))
    assert len(pools) == 6
    assert set(pools.values()) == {8 * len(ENTRIES)}
    assert {pool for _, pool in pools} == {"max", "average"}


def test_without_choices_nothing_is_scored_and_the_reason_says_what_to_do(monkeypatch):
    monkeypatch.setattr(why_aid_entries, "choices", dict)
    assert WhyAID().specs(FULL) == []
    assert WhyAID().specs(StudyOptions(scale="full", methods=("aid",))) == []
    assert "not chosen yet. Try them: supple run why_aid --scale full --search" in WhyAID().reason_to_refuse(FULL)
    assert WhyAID().reason_to_refuse(TUNING) == ""


def level(spec):
    """A score for every entry: more for AID, average pools and a low learning rate."""
    base = {"aid": 0.6, "aid_mean": 0.5, "vanilla": 0.4}.get(spec.method.name, 0.45)
    is_average = getattr(spec.model, "pool", "") == "average"
    return base + 0.1 * is_average - spec.optimizer.learning_rate + 0.001 * spec.seed


def made_of(specs, value_of):
    def rows(spec):
        number = spec.problem.scenario.num_stages
        return dict.fromkeys(("train_accuracy", "test_accuracy"), [value_of(spec)] * number)

    return made(specs, rows)


def test_the_best_setting_on_the_tuning_seed_is_chosen_and_decides_no_claim():
    results = made_of(WhyAID().specs(TUNING), level)
    found = selections(results, TUNING)
    assert len(found) == sum(len(arm.protocol.entries) for arm in arms("full"))
    rates = {entry: one.chosen.runs[0].spec.optimizer.learning_rate for (_, entry), one in found.items()}
    assert (rates["vanilla"], rates["aid_gauss"]) == (1e-4, 1e-4)  # warm start's lowest, the last of them
    assert {claim.verdict for claim in WhyAID().draw(results, TUNING).claims} == {"not run"}


def verdicts(value_of):
    noise = np.random.default_rng(0)
    results = made_of(WhyAID().specs(FULL), lambda spec: value_of(spec) + 1e-4 * noise.normal())
    return dict(zip(KEYS, (claim.verdict for claim in WhyAID().draw(results, FULL).claims), strict=True))


def test_rules_follow_the_runs(chosen):
    found = verdicts(level)
    assert found.pop("leaky_relu_keeps_up") == "fails"
    assert found.pop("pools_are_half") == "fails"  # 0.1 of a lead of 0.3
    assert set(found.values()) == {"holds"}


@pytest.mark.parametrize(
    ("entry", "gain", "key", "verdict"),
    [
        ("aid_mean", 0.2, "noise", "fails"),
        ("aid_gauss", 0.2, "form", "fails"),
        ("aid_per_unit", 0.2, "grain", "fails"),
        ("leaky_dropout", 0.2, "leaky_dropout", "fails"),
        ("leaky_relu", 0.2, "leaky_relu", "fails"),
        ("leaky_relu", 0.06, "leaky_relu_keeps_up", "holds"),  # 0.11 above ReLU, AID 0.2
        ("leaky_relu", 0.04, "leaky_relu_keeps_up", "fails"),
        ("aid", -0.2, "leaky_relu_keeps_up", "not decided"),  # AID adds nothing to ReLU
        ("vanilla", 0.15, "slopes", "fails"),
        ("vanilla", 0.15, "pools_are_half", "holds"),
    ],
)
def test_a_claim_turns_with_the_entry_it_is_about(chosen, entry, gain, key, verdict):
    assert verdicts(lambda spec: level(spec) + gain * (spec.method.name == entry))[key] == verdict


def test_figure_orders_entries_by_their_lead_over_relu_with_max_pools(chosen):
    results = made_of(WhyAID().specs(FULL), level)
    (figure,) = WhyAID().draw(results, FULL).figures
    assert [panel.title for panel in figure.panels] == [protocol.name for protocol in PROTOCOLS]
    panel = figure.panels[2]
    assert panel.positions[:2] == ("AID", "AID's mean")
    assert panel.positions[-1] == "ReLU"
    maximum, average = panel.bars
    assert (maximum.label, average.label) == ("max pools", "average pools, or none")
    assert maximum.middle[-1] == 0.0
    assert np.isfinite(average.low).all()
    assert all(panel.is_empty for panel in WhyAID().draw(Results(()), FULL).figures[0].panels)
