"""Quickstart: its claims rest on runs that ended and name them."""

import numpy as np
import pytest

from supple_lab.paper.quickstart import Quickstart
from supple_lab.paper.study import StudyOptions
from supple_lab.report.tables import ABSENT
from supple_lab.results.results import Results, RunResult

STUDY, ORDER = Quickstart(), StudyOptions(scale="quick")
NUM_STAGES = 20
LAST = {"vanilla": 0.1, "dropout": 0.2, "aid": 0.89}


def made_run(spec, *, state="done", num_stages=NUM_STAGES, last=None):
    """Accuracies from 0.9 down to the method's last; fewer stages where it did not come so far."""
    values = np.linspace(0.9, LAST[spec.method.name] if last is None else last, NUM_STAGES) + 0.001 * spec.seed
    records = tuple({"stage": stage, "train_accuracy": float(values[stage])} for stage in range(num_stages))
    return RunResult(spec=spec, state=state, seconds=1.0, reason="", records=records)


def drawn(run_of):
    return STUDY.draw(Results(tuple(map(run_of, STUDY.specs(ORDER)))), ORDER)


def test_claims_hold_on_accuracies_as_the_paper_describes_them_and_name_their_runs():
    claims = drawn(made_run).claims
    assert [row.verdict for row in claims] == ["holds"] * 3
    for row, method in zip(claims, LAST, strict=True):
        assert set(row.runs) == {spec.run_id for spec in STUDY.specs(ORDER) if spec.method.name == method}
        assert row.section == "5.1.1 Trainability"
    assert [row.rule.split(": ")[1] for row in claims] == ["below -0.5.", "below -0.5.", "above -0.05."]


def test_interrupted_runs_are_drawn_and_count_for_nothing():
    drawing = drawn(lambda spec: made_run(spec, state="interrupted", num_stages=5))
    assert {row.verdict for row in drawing.claims} == {"not run"}
    assert {row[1:] for row in drawing.tables[0].rows} == {(ABSENT, ABSENT, ABSENT, "0")}
    assert len(drawing.figures[0].panels[0].curves) == 3


@pytest.mark.parametrize(
    ("lost", "first_column"),
    [({"state": "diverged", "num_stages": 5}, 2), ({"num_stages": 0}, 1)],  # ended; empty
)
def test_a_run_without_a_value_is_told_in_the_table_and_keeps_its_claim_open(lost, first_column):
    drawing = drawn(lambda spec: made_run(spec, **lost) if spec.seed == 1 else made_run(spec))
    assert {row.verdict for row in drawing.claims} == {"not decided"}
    for row in drawing.tables[0].rows:  # the first stage of a run that diverged later counts
        told = [cell.endswith("(1 of 3 without a value)") for cell in row[1:4]]
        assert told == [column >= first_column for column in range(1, 4)]
    assert {row[4] for row in drawing.tables[0].rows} == {"3"}
