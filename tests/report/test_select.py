"""Selection of hyperparameters: by the rule, on the seeds said, and told."""

import math

import pytest
from samples import run

from supple.methods import UseAID, Vanilla
from supple_lab.results.results import Results
from supple_lab.results.select import distinctions, select, setting_in_words


def runs(relu_prob, *series, first_seed=0, state="done"):
    return [
        run(
            UseAID(relu_prob=relu_prob),
            seed=seed,
            state=state,
            records=[{"stage": k, "accuracy": value} for k, value in enumerate(values)],
        )
        for seed, values in enumerate(series, start=first_seed)
    ]


EARLY = runs(0.8, (0.9, 0.5), (0.9, 0.5))  # the best mean, 0.70
LATE = runs(0.9, (0.1, 0.7), (0.1, 0.7))  # the best end, 0.7, with a mean of 0.40


def test_the_rule_decides_which_configuration_is_best():
    results = Results((*EARLY, *LATE))
    assert select(results, "accuracy", rule="final").chosen.runs == tuple(LATE)
    chosen = select(results, "accuracy", rule="stage_mean")
    assert chosen.chosen.runs == tuple(EARLY)
    assert chosen.score == pytest.approx(0.7)


def test_one_seed_each_is_enough_to_select():
    assert select(Results((EARLY[0], LATE[0])), "accuracy").chosen.runs == (LATE[0],)


def test_runs_are_set_apart_from_others_of_their_method_alone():
    vanilla = run(Vanilla())
    said = distinctions(Results((*EARLY, *LATE, vanilla)))
    assert said[EARLY[1].spec.run_id] == "relu prob 0.8"
    assert said[vanilla.spec.run_id] == ""


def test_selection_tells_what_it_chose_from_how_many_on_which_seeds():
    selection = select(Results((*EARLY, *LATE)), "accuracy")
    assert selection.words() == (
        "relu prob 0.9: the best of 2 configurations by accuracy at the last stage, "
        "selected on the very seeds reported (n = 2)."
    )


def test_a_configuration_with_a_diverged_run_comes_last():
    diverged = [*runs(0.5, (0.9, 0.99)), *runs(0.5, (0.9,), first_seed=1, state="diverged")]
    assert select(Results((*diverged, *LATE)), "accuracy").chosen.runs == tuple(LATE)


def test_configurations_with_fewer_finished_runs_are_not_compared_and_that_is_said():
    unready = [*runs(0.5, (0.9, 0.99)), *runs(0.5, (), first_seed=1, state="waiting")]
    selection = select(Results((*unready, *LATE, *EARLY)), "accuracy")
    assert selection.chosen.runs == tuple(LATE)
    assert (selection.num_compared, selection.num_configurations) == (2, 3)
    assert "1 more has fewer finished runs and was not compared" in selection.words()
    nothing = select(Results(tuple(runs(0.5, (), state="waiting") + runs(0.6, (), state="waiting"))), "accuracy")
    assert nothing.chosen.runs == select(Results(()), "accuracy").chosen.runs == ()
    assert math.isnan(nothing.score)


def test_settings_are_said_in_words_also_where_they_have_parts():
    schedule = {"kind": "linear_decay", "first": 1.0, "last": 0.01}
    assert setting_in_words("epsilon", schedule) == "epsilon linear decay (first 1.0, last 0.01)"
    assert setting_in_words("learning_rate", 1e-4) == "learning rate 0.0001"
    assert setting_in_words("betas", [0.9, 0.99]) == "betas 0.9 and 0.99"
    assert (setting_in_words("clip", None), setting_in_words("nesterov", True)) == ("without clip", "with nesterov")
    assert "{" not in setting_in_words("a", {"kind": "b", "c": {"kind": "d", "e_f": [1]}})
