"""Sensitivity: the paper's cells, the heat maps, and the claim over most of the cells."""

import numpy as np
import pytest
from made_runs import drawn, made, wavering

from supple_lab.optimizer import Adam
from supple_lab.paper.sensitivity import Sensitivity
from supple_lab.paper.study import StudyOptions
from supple_lab.results.results import Results

PAPER = StudyOptions(scale="paper")
STUDY = Sensitivity()
RESET = 0.5


def accuracy(spec):
    """At p 0.6 below full reset, else above."""
    if spec.method.name == "full_reset":
        return wavering(spec, RESET)
    return wavering(spec, spec.method.relu_prob - 0.15 + 10 * spec.optimizer.learning_rate)


def test_cells_are_the_papers():
    specs = STUDY.specs(PAPER)
    cells = {(spec.method.relu_prob, spec.optimizer) for spec in specs if spec.method.name == "aid"}
    assert cells == {(p, Adam(learning_rate=rate)) for p in (0.6, 0.7, 0.8, 0.9) for rate in (1e-3, 1e-4)}


def test_heat_map_has_p_across_rates_down_and_full_reset_as_reference():
    first = drawn(STUDY, PAPER, accuracy).figures[0].panels[0]
    assert first.columns == ("0.6", "0.7", "0.8", "0.9")
    assert first.rows == ("0.001", "0.0001")
    mean_seed = 0.002
    np.testing.assert_allclose(first.values[0], np.array([0.46, 0.56, 0.66, 0.76]) + mean_seed, atol=1e-12)
    assert first.reference.value == pytest.approx(RESET + mean_seed)
    assert first.deviations[1, 2] == pytest.approx(np.std([0.0, 0.001, 0.002, 0.003, 0.004], ddof=1))
    assert {len(sample) for row in first.samples for sample in row} == {5}


def test_the_table_has_each_method_that_ran_and_no_cell_that_did_not():
    asked = StudyOptions(scale="smoke", methods=("full_reset", "redo"))
    ran = made(STUDY.specs(asked), lambda spec: 0.75 if spec.method.name == "redo" else 0.5)
    waiting = [spec for spec in STUDY.specs(asked.whole()) if spec.method.name == "aid"]
    results = Results((*ran.runs, *made(waiting, lambda spec: None).runs))
    rows = STUDY.draw(results, asked.whole()).tables[0].rows
    reset, redo = ("0.500", "\N{EN DASH}", "1"), ("0.750", "0.250", "1")
    assert [(row[1], *row[4:]) for row in rows] == [("full reset", *reset), ("ReDo", *redo)] * 3


def test_slim_networks_have_rates_on_either_side_of_full_resets():
    specs = STUDY.specs(StudyOptions(scale="quick"))
    rates = {(spec.method.name, spec.optimizer.learning_rate) for spec in specs}
    assert rates == {("full_reset", 1e-3), ("aid", 3e-3), ("aid", 3e-4)}
    assert {spec.model.name for spec in specs} == {"cnn"}
