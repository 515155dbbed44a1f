"""Theory: expectations by enumeration equal the closed form, a broken law is seen, the kernels' file is read right."""

import json

import numpy as np
import pytest
import torch

from supple import functional as SF
from supple import theory
from supple_lab.report.results import Results
from supple_lab.studies import theory as study
from supple_lab.studies.kernel_cost import aid_costs_what_dropout_costs, counts
from supple_lab.studies.order import Order

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
    drawing = study.Theory().draw(Results(()), Order())
    assert study.Theory().specs(Order(scale="paper")) == []
    assert [claim.verdict for claim in drawing.claims] == ["not run", "holds", "holds"]
    assert [len(figure.panels) for figure in drawing.figures] == [2, 2, 2]


def test_the_mean_over_all_masks_is_the_closed_form():
    networks = study.random_networks()[:3]
    by_masks, by_algebra = (study.over_p(networks, side) for side in (study.enumerated_loss, theory.aid_loss))
    np.testing.assert_allclose(by_masks, by_algebra, rtol=1e-12)


def test_the_mean_over_all_masks_is_the_mean_of_the_operator():
    network = study.random_networks()[0]
    v = theory.preactivation(network["W1"], network["x"]).expand(20_000, -1)
    losses = theory.squared_error(network["W2"], SF.aid(v, 0.8, training=True), y=network["y"])
    exact = study.enumerated_loss(**network, p=0.8)
    assert abs(losses.mean() - exact) < 5 * losses.std() / len(losses) ** 0.5


def test_theorem_1_fails_on_a_bound_that_is_too_high_and_on_a_penalty_that_shrinks():
    networks = study.random_networks()
    left, right = (study.over_p(networks, side) for side in (study.enumerated_loss, theory.aid_loss_bound))
    penalty, bound = (study.over_p(networks, side) for side in (theory.aid_penalty, theory.aid_penalty_bound))
    assert study.theorem_1(left, right, penalty=penalty, bound=bound).verdict == "holds"
    assert study.theorem_1(left, left + 1e-3, penalty=penalty, bound=bound).verdict == "fails"
    dented = np.where(np.array(study.PROBABILITIES) == 0.5, 0.9 * bound, bound)
    assert study.theorem_1(left, right, penalty=penalty, bound=dented).verdict == "fails"


def test_he_moments_fail_six_standard_errors_off():
    half = np.full(len(study.PROBABILITIES), 0.5)
    off = half.copy()
    off[3] += 6 * study.MOMENT_ERROR
    assert study.he_moments(half, half).verdict == "holds"
    assert study.he_moments(off, half).verdict == "fails"
    assert study.he_moments(half, half + 6 * study.SLOPE_ERROR).verdict == "fails"


def test_standard_errors_are_those_of_the_draws():
    z = torch.randn(100_000, dtype=torch.float64)
    squares = SF.aid(z, 0.7, training=True).square()
    # The sample's spread is known to about 5 * sqrt(kurtosis / n) / 2, below 10% here.
    assert squares.std().item() / study.NUM_NORMAL**0.5 == pytest.approx(study.MOMENT_ERROR, rel=0.1)


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


def test_titles_of_cases_are_understood():
    assert counts("2^16, float32, forward + backward")
    assert counts("64x64x32x32, float32, forward + backward")
    assert counts("2^20, bfloat16, CUDA graph of 8 layers")
    assert not counts("2^12, float32, forward + backward")
    assert not counts("2^24, float32, forward")


def test_a_missing_or_damaged_benchmark_is_not_run_and_says_what_to_do(tmp_path):
    for prepare in (lambda path: None, lambda path: path.write_text("{"), lambda path: path.write_text("[]")):
        prepare(tmp_path / "bench-kernels.json")
        row = aid_costs_what_dropout_costs(tmp_path)
        assert row.verdict == "not run"
        assert f"supple bench kernels --json {tmp_path / 'bench-kernels.json'}" in row.measured
