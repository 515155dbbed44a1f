"""Generalizability gap: cold arms matched with warm ones, and its two claims decided."""

from collections import Counter

import numpy as np
import pytest
from made_runs import drawn, made, verdicts, wavering

from supple.methods import FullReset, UseAID, UseDropout
from supple_lab.optimizer import Adam
from supple_lab.paper.generalizability_gap import GeneralizabilityGap, arm_of
from supple_lab.paper.study import StudyOptions
from supple_lab.report.write import only_asked

PAPER = StudyOptions(scale="paper")
STUDY = GeneralizabilityGap()
COLD = 0.8
GAPS = {"vanilla": (0.2, 0.2), "dropout": (0.05, 0.1), "aid": (0.01, 0.01)}  # at the first and at the last stage


def accuracies(spec, **changed):
    first, last = (0.0, 0.0) if spec.method.name == "full_reset" else {**GAPS, **changed}[spec.method.name]
    return [wavering(spec, COLD - gap) for gap in np.linspace(first, last, 10)]


def test_cold_arms_have_the_papers_settings():
    specs = [spec for spec in STUDY.specs(PAPER) if spec.model.name == "vgg16" and isinstance(spec.method, FullReset)]
    assert {(spec.method, spec.optimizer) for spec in specs} == {
        (FullReset(), Adam(learning_rate=1e-3)),
        (FullReset(built_with=UseDropout(drop_positive=0.1)), Adam(learning_rate=1e-4)),
        (FullReset(built_with=UseAID(relu_prob=0.7)), Adam(learning_rate=1e-4)),
    }


@pytest.mark.parametrize(
    ("values_of", "expected"),
    [
        (accuracies, ["holds", "holds"]),
        (lambda spec: accuracies(spec, dropout=(0.1, 0.05)), ["holds", "fails"]),  # it shrinks
        (
            lambda spec: accuracies(spec, **({"aid": (0.3, 0.3)} if spec.model.name == "cnn" else {})),
            ["fails", "holds"],
        ),
        (lambda spec: None if spec.method.name == "full_reset" else accuracies(spec), ["not run", "not run"]),
    ],
)
def test_each_claim_is_decided_by_its_own_rule_on_each_network(values_of, expected):
    assert verdicts(STUDY, PAPER, values_of) == expected


def test_claims_name_both_arms_of_every_seed():
    results = made(STUDY.specs(PAPER), accuracies)
    lowest, _ = STUDY.draw(results, PAPER).claims
    assert set(lowest.runs) == {run.spec.run_id for run in results.runs}


def test_gap_is_cold_minus_warm_of_the_same_method_and_seed():
    above, below = drawn(STUDY, PAPER, accuracies).figures
    gaps = {curve.method: curve.values for curve in below.panels[0].curves}
    np.testing.assert_allclose(gaps["dropout"], np.tile(np.linspace(0.05, 0.1, 10), (5, 1)), atol=1e-12)
    assert [curve.label for curve in above.panels[0].curves][::3] == ["ReLU, cold start", "ReLU, warm start"]


def test_asked_for_methods_bring_their_own_cold_arms():
    order = StudyOptions(scale="smoke", methods=("aid", "l2"))
    specs = STUDY.specs(order)
    arms = Counter((spec.method.name, arm_of(spec.method)) for spec in specs)
    assert arms == {("aid", "aid"): 3, ("l2", "l2"): 3, ("full_reset", "aid"): 3}
    assert any("no cold start: L2" in note for note in STUDY.draw(made(specs, lambda spec: 0.5), order).notes)


def test_full_reset_beside_vanilla_is_the_cold_arm_of_vanillas_gap():
    asked = StudyOptions(scale="smoke", methods=("vanilla", "full_reset"))
    specs = STUDY.specs(asked)
    assert Counter(spec.method.name for spec in specs) == {"vanilla": 3, "full_reset": 3}
    report = STUDY.draw(made(specs, lambda spec: 0.3 if spec.method.name == "vanilla" else 0.5), asked.whole())
    rows = [row[1:] for row in report.tables[0].rows]
    assert rows == [("ReLU", "0.500", "0.300", "0.200", "0.200", "1")] * 3
    assert [curve.label for curve in report.figures[0].panels[0].curves] == ["ReLU, cold start", "ReLU, warm start"]
    assert any(note.endswith("its runs are the cold start of ReLU.") for note in report.notes)


def test_full_reset_alone_runs_as_the_papers_cold_arm():
    asked = StudyOptions(scale="paper", methods=("full_reset",))
    cold = {spec.run_id for spec in STUDY.specs(PAPER) if spec.method == FullReset()}
    assert {spec.run_id for spec in STUDY.specs(asked)} == cold
    results = made(STUDY.specs(asked), lambda spec: 0.5)
    assert [row[1:] for row in STUDY.draw(results, asked).tables[0].rows] == [
        ("ReLU", "0.500 ± 0.000", *"\N{EN DASH}" * 3, num_seeds) for num_seeds in "553"
    ]


def test_method_without_a_cold_start_alone_has_its_row():
    asked = StudyOptions(scale="smoke", methods=("cbp",))
    (table,) = only_asked(STUDY.draw(made(STUDY.specs(asked), lambda spec: 0.5), asked.whole())).tables
    assert table.header == ("network", "method", "warm start", "n")
    assert [row[1:] for row in table.rows] == [("CBP", "0.500", "1")] * 3


def test_each_arm_of_a_search_is_selected_for_itself():
    order = StudyOptions(scale="paper", search=True)
    results = made(
        [spec for spec in STUDY.specs(order) if spec.model.name == "cnn"],
        lambda spec: wavering(spec, 0.5 + 0.1 * getattr(getattr(spec.method, "built_with", None), "relu_prob", 0.0)),
    )
    notes = STUDY.draw(results, order).notes
    assert any(note.startswith("CNN on CIFAR-10, cold start, AID:") and "relu prob 0.9" in note for note in notes)
