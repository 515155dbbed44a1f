"""Continual full and limited: their claims, decided by their rules."""

from collections import Counter

import numpy as np
import pytest
from made_runs import claims, made, verdicts, wavering

from supple_lab.paper.continual import ContinualFull, ContinualLimited
from supple_lab.paper.study import StudyOptions

PAPER = StudyOptions(scale="paper")
FULL, LIMITED = ContinualFull(), ContinualLimited()
OTHERS = {"vanilla": 0.5, "full_reset": 0.6, "dash": 0.6, "shrink_perturb": 0.595, "aid": 0.7}
FAMILY = {"dropout": 0.6, "drop_relu": 0.6, "aid": 0.7}


def full(spec, **changed):
    return wavering(spec, {**OTHERS, **changed}.get(spec.method.name, 0.4))


def limited(spec, **changed):
    return wavering(spec, {**FAMILY, **changed}.get(spec.method.name, 0.4))


def test_claims_on_full_hold_where_aid_leads_and_the_two_match_reset_and_name_the_runs_they_rest_on():
    results = made(FULL.specs(PAPER), full)
    lead, match, _ = FULL.draw(results, PAPER).claims
    assert (lead.verdict, match.verdict) == ("holds", "holds")
    assert lead.measured.startswith("holds in 12 of 12")  # four quarters on each network
    methods = {run.spec.run_id: run.spec.method.name for run in results.runs}
    assert set(lead.runs) == set(methods)
    assert [len(part.runs) for part in lead.parts] == [12 * 5] * 8 + [12 * 3] * 4
    assert Counter(methods[run] for run in match.runs) == {"dash": 13, "shrink_perturb": 13, "full_reset": 13}


def on(network, method, there, elsewhere):
    return lambda spec: full(spec, **{method: there if spec.model.name == network else elsewhere})


@pytest.mark.parametrize(
    ("values_of", "place", "verdict"),
    [
        (on("vgg16", "aid", 0.59, 0.7), 0, "fails"),  # it must lead on each network
        (on("vgg16", "shrink_perturb", 0.6, 0.5), 1, "holds"),  # a match on one is enough
        (lambda spec: full(spec, shrink_perturb=0.5), 1, "fails"),
        (lambda spec: None if spec.method.name == "cbp" else full(spec), 0, "not decided"),
        (lambda spec: None if spec.method.name == "cbp" else full(spec, aid=0.55), 0, "fails"),
        (lambda spec: [0.9, np.nan] if (spec.method.name, spec.seed) == ("aid", 1) else full(spec), 0, "not decided"),
    ],
)
def test_claims_on_full_are_decided_network_by_network_and_rival_by_rival(values_of, place, verdict):
    assert verdicts(FULL, PAPER, values_of)[place] == verdict


def test_l2_init_and_redo_are_run_on_demand_alone_and_the_claim_says_how():
    assert not {"l2_init", "redo"} & {spec.method.name for spec in FULL.specs(PAPER)}
    row = claims(FULL, PAPER, full)[2]
    assert row.verdict == "not run"
    assert "supple run continual_full --methods vanilla l2_init redo" in row.measured


def with_l2(level, lost):
    """L2 at a level of its own, diverged in the seeds that are lost."""

    def values(spec):
        if spec.method.name != "l2":
            return full(spec)
        return [0.9, np.nan] if spec.seed in lost else wavering(spec, level)

    return values


ABOVE_ELSEWHERE = "the other is above where it ended, but diverged elsewhere, so not decided"


@pytest.mark.parametrize(
    ("level", "lost", "verdict", "on_the_cnn", "words"),
    [
        (0.9, range(5), "holds", "holds", "; diverged and lost there: L2 in 5 of 5 seeds"),
        (0.5, {4}, "holds", "holds", "diverged and lost there: L2 in 1 of 5 seeds"),  # below elsewhere
        (0.9, {1}, "not decided", "not decided", ABOVE_ELSEWHERE),
        (0.9, {4}, "fails", "not decided", ABOVE_ELSEWHERE),  # VGG-16 has no fifth seed
        (0.9, range(4), "not decided", "not decided", "L2"),  # one seed that ended cannot be compared
    ],
)
def test_a_rival_lost_the_seeds_in_which_it_diverged(level, lost, verdict, on_the_cnn, words):
    row = claims(FULL, PAPER, with_l2(level, lost))[0]
    assert (row.verdict, row.parts[0].verdict) == (verdict, on_the_cnn)
    assert words in row.parts[0].measured


def test_a_noisy_rival_that_may_be_better_keeps_the_lead_open_though_another_comes_closer():
    noise = (-0.06, -0.03, 0.0, 0.03, 0.06)

    def values(spec):
        if spec.method.name == "cbp":  # three points below AID, give or take six: it may well be above
            return full(spec, cbp=0.67) + noise[spec.seed]
        return full(spec, l2=0.69)  # one point below AID in every seed

    row = claims(FULL, PAPER, values)[0]
    assert (row.verdict, row.parts[0].verdict) == ("not decided", "not decided")
    assert row.parts[0].measured.startswith("closest, L2: 0.010")
    assert "not decided in CBP" in row.parts[0].measured


@pytest.mark.parametrize(("mean", "verdict"), [(0.0254, "not decided"), (0.0508, "fails")])
def test_the_best_of_eleven_must_be_ahead_by_more_than_chance(mean, verdict):
    """t = mean / (1.58 spread / sqrt 5): 3.5 is beyond 5% (2.78), 7 beyond 5% of eleven looks (5.6)."""
    ahead = np.array([-2.0, -1.0, 0.0, 1.0, 2.0]) * 0.01 + mean
    rows = claims(FULL, PAPER, lambda spec: 0.7 + float(ahead[spec.seed]) if spec.method.name == "cbp" else full(spec))
    of_the_cnn = rows[0].parts[0]
    assert of_the_cnn.verdict == verdict
    assert ("after 11 looks that may be chance" in of_the_cnn.remark) == (verdict == "not decided")


@pytest.mark.parametrize(
    ("values_of", "expected"),
    [
        (limited, ["holds", "holds"]),
        (lambda spec: limited(spec, dropout=0.3 if spec.model.name == "cnn" else 0.6), ["holds", "fails"]),
        (lambda spec: None if spec.method.name == "dash" else limited(spec), ["not decided", "not decided"]),
    ],
)
def test_the_family_is_above_the_median_of_the_others_on_each_network_once_all_have_run(values_of, expected):
    assert verdicts(LIMITED, PAPER, values_of) == expected


@pytest.mark.parametrize(("num_diverged", "verdict"), [(5, "not decided"), (4, "holds")])
def test_the_median_takes_the_seeds_that_all_have_and_ranks_divergence_last(num_diverged, verdict):
    """Of nine outsiders; if five diverged, so did the median."""
    diverged = ("l2", "cbp", "crelu", "rrelu", "fourier")[:num_diverged]

    def values(spec):
        if spec.method.name == "dash" and spec.seed > 2:
            return None
        return [np.nan] * 10 if spec.method.name in diverged else limited(spec)

    part = claims(LIMITED, PAPER, values)[1].parts[0]
    assert (part.n, part.verdict) == (3, verdict)
