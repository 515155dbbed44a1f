"""Theory: expectations by enumeration equal the closed form, a broken law is seen, the kernels' file is read right."""

import json
from functools import wraps
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from supple import functional as SF
from supple import theory
from supple_lab.commands.report import make_report
from supple_lab.paper import theorem
from supple_lab.paper import theory as study
from supple_lab.paper.manifest import add_to_manifest
from supple_lab.paper.register import registered_claims
from supple_lab.paper.study import StudyOptions
from supple_lab.paper.theory import aid_costs_what_dropout_costs
from supple_lab.results.results import Results
from supple_lab.store.store import Store

CASE = "2^20, float32, forward + backward"


def bench_row(candidate, ratio, *, case=CASE, spread=0.01):
    return {
        "case": case,
        "candidate": candidate,
        "microseconds": 1.0,
        "ratio": ratio,
        "ratio_quartiles": [ratio - spread, ratio + spread],
        "turns": 30,
        "bytes_kept": 0,
    }


def measured(folder, *rows):
    (folder / "bench-kernels.json").write_text(json.dumps({"benchmark": "kernels", "rows": rows}))
    return aid_costs_what_dropout_costs(folder)


def test_a_study_without_runs_draws_and_decides():
    drawing = study.Theory().draw(Results(()), StudyOptions())
    assert study.Theory().specs(StudyOptions(scale="paper")) == []
    assert [claim.verdict for claim in drawing.claims] == ["not run", "holds", "holds", "holds"]
    assert [len(figure.panels) for figure in drawing.figures] == [2, 2, 1, 2]


@pytest.mark.slow
def test_smoke_scale_is_marked_and_gives_no_verdict(tmp_path):
    add_to_manifest(
        Store.create(tmp_path).root, "theory", order=StudyOptions(scale="smoke"), command="supple", specs=[]
    )
    drawing, page = make_report(study.Theory(), tmp_path)
    assert {claim.verdict for claim in drawing.claims} == {"not run", "not decided"}
    assert "Smoke scale" in page.read_text()
    assert not any("Smoke" in note for note in study.Theory().draw(Results(()), StudyOptions(scale="quick")).notes)


def test_pre_activations_are_made_negative_and_nothing_else_changes():
    for network in theorem.random_networks():
        before, after = (theory.preactivation(own["W1"], own["x"]) for own in (network, theorem.made_negative(network)))
        torch.testing.assert_close(after, -before.abs(), rtol=0.0, atol=0.0)


@pytest.mark.parametrize(
    "planted",
    [
        lambda sides: {**sides, "right": sides["left"] + 1e-3},  # the corollary's inequality
        lambda sides: {**sides, "dropout": sides["dropout"] + 1e-3},  # Dropout pulls
        lambda sides: {**sides, "dropout": sides["dropout"] - 1e-3},
        lambda sides: {**sides, "aid": 0.9 * sides["bound"]},  # AID pulls less than the theorem says
        lambda sides: {**sides, "bound": 0.0 * sides["bound"]},  # or need not pull at all
    ],
)
def test_the_corollary_fails_by_each_of_its_parts(planted):
    sides = theorem.corollary_1(theorem.random_networks()[:4])
    assert theorem.dropout_has_no_pull(**sides).verdict == "holds"
    assert theorem.dropout_has_no_pull(**planted(sides)).verdict == "fails"


def test_the_mean_over_all_masks_is_the_mean_of_the_operator():
    network = theorem.random_networks()[0]
    v = theory.preactivation(network["W1"], network["x"]).expand(20_000, -1)
    losses = theory.squared_error(network["W2"], SF.aid(v, 0.8, training=True), y=network["y"])
    exact = theorem.enumerated_loss(**network, p=0.8)
    assert abs(losses.mean() - exact) < 5 * losses.std() / len(losses) ** 0.5


def test_theorem_1_fails_on_a_bound_that_is_too_high_and_on_a_penalty_that_shrinks():
    networks = theorem.random_networks()
    left, right = (theorem.over_p(networks, side) for side in (theorem.enumerated_loss, theory.aid_loss_bound))
    penalty, bound = (theorem.over_p(networks, side) for side in (theory.aid_penalty, theory.aid_penalty_bound))
    sides = {"penalty": penalty, "bound": bound, "one_unit": np.zeros(3)}
    assert theorem.theorem_1(left, right, **sides).verdict == "holds"
    assert theorem.theorem_1(left, left + 1e-3, **sides).verdict == "fails"
    assert theorem.theorem_1(left, right, **sides | {"one_unit": np.array([0.0, 1e-8])}).verdict == "fails"
    dented = np.where(np.array(theorem.PROBABILITIES) == 0.5, 0.9 * bound, bound)
    assert theorem.theorem_1(left, right, **sides | {"bound": dented}).verdict == "fails"


@pytest.mark.parametrize("factor", [1.0, 0.999, 1.001])
def test_an_error_in_a_bound_is_seen_whatever_its_sign(factor, monkeypatch):
    """A bound that is too low is a bound, too: only where the inequality is an equality does it show."""
    for name in ("aid_penalty_bound", "dropout_penalty_bound"):
        right = getattr(theory, name)
        planted = wraps(right)(lambda *args, right=right, **options: factor * right(*args, **options))
        monkeypatch.setattr(theory, name, planted)
    monkeypatch.setattr(study, "NUM_NETWORKS", 6)  # some of them with a unit above zero
    verdicts = [claim.verdict for claim in study.Theory().draw(Results(()), StudyOptions()).claims[1:3]]
    assert verdicts == ["holds" if factor == 1.0 else "fails"] * 2


def scaled(x, p, **options):
    """Divided by p, as Dropout divides by what it keeps."""
    return SF.aid(x, p, **options) / max(p, 0.5)


def leaky(x, p, **options):
    """Lets a thousandth of what it drops pass."""
    return SF.aid(x, p, **options) + 0.001 * x


def one_sided(x, p, **options):
    """Never takes the negative branch: Dropout after ReLU."""
    return torch.relu(SF.aid(x, p, **options))


@pytest.mark.parametrize("planted", [None, scaled, leaky, one_sided])
def test_an_error_in_the_operator_breaks_the_check_of_its_moments(planted, monkeypatch):
    monkeypatch.setattr(study, "SF", SimpleNamespace(aid=planted or SF.aid))
    assert study.he_moments(*study.sampled_moments()).verdict == ("fails" if planted else "holds")


def test_checks_are_told_from_claims():
    claims = [claim for _, claim in registered_claims().values()]
    checks = [claim for claim in claims if claim.is_check]
    assert {claim.key for claim in checks} == {"theorem_1", "dropout_has_no_such_pull", "he_moments"}
    assert all(claim.claim.startswith("Check: ") == claim.is_check for claim in claims)


@pytest.mark.parametrize(("aid", "verdict"), [(1.5, "holds"), (2.5, "fails"), (2.005, "not decided")])
def test_aid_may_take_as_long_as_relu_and_dropout(tmp_path, aid, verdict):
    row = measured(tmp_path, bench_row("F.relu", 1.0), bench_row("AID p=0.9", aid), bench_row("F.dropout", 1.0))
    assert row.verdict == verdict
    assert row.n == 30


def test_one_slow_case_is_enough_but_only_a_large_one_that_goes_both_ways(tmp_path):
    fast = (bench_row("AID p=0.9", 1.5), bench_row("F.dropout", 1.0))

    def slow(case):
        return (bench_row("AID p=0.9", 9.0, case=case), bench_row("F.dropout", 1.0, case=case))

    assert measured(tmp_path, *fast, *slow("2^12, float32, forward + backward")).verdict == "holds"
    assert measured(tmp_path, *fast, *slow("2^20, float32, forward")).verdict == "holds"
    assert (
        measured(tmp_path, *fast, *slow("64x64x32x32 channels_last, bfloat16, forward + backward")).verdict == "fails"
    )


def test_a_missing_or_damaged_benchmark_is_not_run_and_says_what_to_do(tmp_path):
    for prepare in (lambda path: None, lambda path: path.write_text("{"), lambda path: path.write_text("[]")):
        prepare(tmp_path / "bench-kernels.json")
        row = aid_costs_what_dropout_costs(tmp_path)
        assert row.verdict == "not run"
        assert f"supple bench kernels --json {tmp_path / 'bench-kernels.json'}" in row.measured
