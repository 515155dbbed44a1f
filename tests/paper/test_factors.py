"""Factors: every cell is there under its own name, and each rule follows the cells that it is about."""

import pytest
from made_runs import made

from supple_lab.paper.factors import Factors, groups_of, name_of
from supple_lab.paper.study import StudyOptions

FULL = StudyOptions(scale="full")
LEVELS = {"AID": 0.9, "LayerNorm": 0.7, "LayerNorm + AID": 0.95, "LayerNorm + AID + L2": 0.97, "AID + L2": 0.93}


def results_of(level_of):
    def rows(spec):
        value = level_of(name_of(spec)) + 1e-4 * spec.seed * (1 + len(name_of(spec)))
        return dict.fromkeys(("train_accuracy", "test_accuracy"), [value] * spec.problem.scenario.num_stages)

    return made(Factors().specs(FULL), rows)


def verdicts(level_of):
    claims = Factors().draw(results_of(level_of), FULL).claims
    return [claim.verdict for claim in claims]


def test_cells_are_all_combinations_with_five_seeds():
    groups = groups_of(results_of(lambda name: 0.5), FULL)
    factorial = {"ReLU", "AID", "LayerNorm", "LayerNorm + AID"}
    factorial |= {f"{name} + L2" for name in factorial}
    others = {f"{name} + {more}" for name in ("ReLU", "AID") for more in ("fresh optimizer", "standardised")}
    others |= {f"{name} + fresh optimizer + standardised" for name in ("ReLU", "AID")}
    assert set(groups["continual full"]) == factorial
    assert set(groups["random labels"]) == factorial | others
    assert {len(sample) for cells in groups.values() for sample in cells.values()} == {5}


def test_rules_follow_the_cells():
    assert verdicts(lambda name: LEVELS.get(name, 0.5)) == ["holds"] * 3 + ["fails"] * 4


@pytest.mark.parametrize(
    ("cell", "place"), [("LayerNorm", 3), ("ReLU + L2", 4), ("ReLU + fresh optimizer", 5), ("ReLU + standardised", 6)]
)
def test_a_cell_within_two_points_of_aid_does_as_well(cell, place):
    found = verdicts(lambda name: 0.89 if name == cell else LEVELS.get(name, 0.5))
    assert [found.pop(place), found.count("fails")] == ["holds", 3]
