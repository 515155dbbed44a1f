"""Continual limited: the paper's runs, and its two claims decided by their rules."""

from collections import Counter

import numpy as np
import pytest
from made_records import made, verdicts, wavering

from supple_lab.paper.continual import ContinualLimited
from supple_lab.paper.study import StudyOptions
from supple_lab.paper.tables import best
from supple_lab.results.results import Sample
from supple_lab.scenarios.continual import ContinualLimited as Scenario

PAPER = StudyOptions(scale="paper")
STUDY = ContinualLimited()
FAMILY = {"dropout": 0.6, "drop_relu": 0.6, "aid": 0.7}


def accuracy(spec, **changed):
    return wavering(spec, {**FAMILY, **changed}.get(spec.method.name, 0.4))


def sample(*values):
    return Sample(values=np.array(values), seeds=tuple(range(len(values))), runs=tuple(map(str, values)))


def test_paper_scale_is_the_papers():
    specs = STUDY.specs(PAPER)
    assert {spec.problem.scenario for spec in specs} == {Scenario(num_stages=10, epochs=100, batch_size=256)}
    assert Counter(spec.model.name for spec in specs) == {"cnn": 12 * 5, "resnet18": 12 * 5, "vgg16": 12 * 3}
    assert Counter(spec.method.name for spec in specs)["s_ewc"] == 13
    assert "full_reset" not in {spec.method.name for spec in specs}
    for network in ("cnn", "resnet18", "vgg16"):
        ran = [(spec.method, spec.optimizer) for spec in specs if spec.model.name == network and spec.seed == 0]
        assert ran == best("continual_limited", network)


def test_both_claims_hold_where_the_family_is_ahead_and_aid_first():
    assert verdicts(STUDY, made(STUDY.specs(PAPER), accuracy), PAPER) == ["holds", "holds"]


def test_one_weak_member_on_one_network_fails_the_family():
    results = made(STUDY.specs(PAPER), lambda spec: accuracy(spec, dropout=0.3 if spec.model.name == "cnn" else 0.6))
    assert verdicts(STUDY, results, PAPER) == ["holds", "fails"]


def test_family_does_not_hold_while_a_method_outside_has_not_run():
    results = made(STUDY.specs(PAPER), lambda spec: None if spec.method.name == "dash" else accuracy(spec))
    assert verdicts(STUDY, results, PAPER) == ["not decided", "not decided"]


@pytest.mark.parametrize("dash", [0.65, 0.5])
def test_family_is_open_either_way_while_dash_alone_of_the_outsiders_has_run(dash):
    ran = ("dash", *FAMILY)
    results = made(STUDY.specs(PAPER), lambda spec: accuracy(spec, dash=dash) if spec.method.name in ran else None)
    row = STUDY.draw(results, PAPER).claims[1]
    assert row.verdict == "not decided"
    assert {part.verdict for part in row.parts} == {"not decided"}
    assert all("not run yet: ReLU" in part.measured for part in row.parts)


def test_one_seed_decides_nothing():
    results = made(STUDY.specs(PAPER), lambda spec: accuracy(spec) if spec.seed == 0 else None)
    assert verdicts(STUDY, results, PAPER) == ["not decided", "not decided"]


def test_family_names_all_runs_it_rests_on():
    results = made(STUDY.specs(PAPER), accuracy)
    assert set(STUDY.draw(results, PAPER).claims[1].runs) == {run.spec.run_id for run in results.runs}


def test_the_median_takes_the_seeds_that_all_have_and_ranks_divergence_last():
    diverged, shorter = float("nan"), {"s_ewc": range(3), "dash": range(2)}

    def spread(spec):
        if spec.model.name != "cnn" or spec.method.name in FAMILY:
            return accuracy(spec)
        if spec.seed not in shorter.get(spec.method.name, range(5)):
            return None
        return [diverged] * 10 if spec.method.name in ("l2", "cbp", "crelu", "rrelu", "fourier") else accuracy(spec)

    part = STUDY.draw(made(STUDY.specs(PAPER), spread), PAPER).claims[1].parts[0]
    assert (part.n, part.verdict) == (2, "not decided")  # -inf is the median of nine, five of which diverged
