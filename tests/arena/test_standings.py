"""The rules of the arena on numbers made by hand: the choice, the relative score, ties, ranks, agreement."""

import math
from dataclasses import replace

import numpy as np
import pytest

from supple_lab.arena.contest import WORST, ArenaRun, ContestResult, choose
from supple_lab.arena.problems import PROBLEMS
from supple_lab.arena.score import agreement, places_of, standings

PUBLISHED = ("random_labels", "permuted_inputs", "growing_data", "label_noise")


def run(*score: float, state: str = "done") -> ArenaRun:
    return ArenaRun(id="0" * 16, state=state, score=score, train=score[-1] if score else None, seconds=1.0)


def result(entry: str, *later: float, problem: str = "random_labels", state: str = "done"):
    """A seed for each number, which its later stages have; the first stage counts for nothing."""
    seeds = tuple(run(0.9, value, value, state=state) for value in later)
    return ContestResult(problem=problem, entry=entry, settings=({},), draws=seeds[:1], chosen=0, seeds=seeds)


TIED = (0.5, 0.6667, 0.5, 0.6667, 0.3333, 0.5, 0.6667), (0.5, 0.0, 0.5, 0.6667, 0.6667, 0.8333, 0.6667)


@pytest.mark.parametrize(
    ("draws", "chosen"),
    [
        ([run(0.9, 0.2, 0.2), run(0.1, 0.3, 0.3)], 1),  # the first stage does not count
        ([run(0.1, 0.25, 0.5), run(0.1, 0.5, 0.25)], 0),  # of equal ones the first
        ([run(0.3, *TIED[0]), run(0.3, *TIED[1])], 0),  # also if their sums differ by a last bit
        ([run(0.1, 0.9, 0.9, state="diverged"), run(0.1, 0.0, 0.0)], 1),
        ([run(state="failed"), run(0.1, 0.9, state="diverged")], None),
    ],
)
def test_the_choice_follows_its_rule(draws, chosen):
    assert choose(draws) == chosen


def test_relative_scores_are_measured_from_chance_to_the_reference():
    made = [result("full_reset", 0.8, 0.9, 1.0), result("vanilla", 0.3, 0.5, 0.7), result("bad", 0.1, 0.1, 0.1)]
    cells = {one.entry: one.cells["random_labels"] for one in standings(made)}
    assert cells["full_reset"].relative == pytest.approx(1.0)
    assert cells["vanilla"].relative == pytest.approx(0.5)  # (0.5 - 0.1) / (0.9 - 0.1)
    assert cells["bad"].relative == pytest.approx(0.0)
    reach = 4.302653 * np.std([0.25, 0.5, 0.75], ddof=1) / math.sqrt(3)  # Student's, two degrees of freedom
    assert cells["vanilla"].interval == pytest.approx((0.5 - reach, 0.5 + reach), rel=1e-5)


def test_a_diverged_seed_counts_as_chance():
    made = [result("full_reset", 0.9, 0.9), result("vanilla", 0.9, 0.9, state="diverged")]
    assert made[1].seeds[0].later_score == WORST
    cells = {one.entry: one.cells["random_labels"] for one in standings(made)}
    assert cells["vanilla"].relative == 0.0


def test_places_follow_from_who_is_better_by_seed():
    scores = {
        "best": np.array([0.90, 0.80, 0.70]),
        "tied": np.array([0.95, 0.60, 0.80]),  # differences -0.05, 0.2, -0.1: their interval holds 0
        "paired": np.array([0.88, 0.78, 0.68]),  # far within the spread, but always 0.02 below
        "last": np.array([0.10, 0.11, 0.10]),
    }
    assert places_of(scores) == {"best": (1, 2), "tied": (1, 3), "paired": (2, 3), "last": (4, 4)}
    assert places_of({"a": np.array([0.5, 0.5]), "b": np.array([0.5, 0.5])}) == {"a": (1, 2), "b": (1, 2)}
    assert places_of({"a": np.array([0.5]), "b": np.array([0.9])}) == {"a": (1, 2), "b": (1, 2)}


def test_an_entry_whose_seeds_differ_much_has_a_rank_in_the_middle():
    small = np.array([-0.01, 0.0, 0.01])
    scores = {f"of {level}": level + small for level in (0.9, 0.8, 0.4, 0.2)} | {"wide": np.array([0.0, 1.0, 0.5])}
    places = places_of(scores)
    assert places["wide"] == (1, 5)
    assert places["of 0.9"] == (1, 2)


def test_mean_ranks_and_what_they_are_with_one_problem_left_out():
    made = []
    for problem, best, other in (
        ("random_labels", "full_reset", "vanilla"),
        ("permuted_inputs", "full_reset", "vanilla"),
        ("label_noise", "vanilla", "full_reset"),
    ):
        made += [result(best, 0.9, 0.91, 0.9, problem=problem), result(other, 0.5, 0.5, 0.51, problem=problem)]
    first, second = standings(made)
    assert (first.entry, first.mean_rank, first.without) == ("full_reset", pytest.approx(4 / 3), (1.0, 1.5))
    assert (second.entry, second.mean_rank, second.without) == ("vanilla", pytest.approx(5 / 3), (1.5, 2.0))


def test_agreement_is_the_correlation_of_ranks():
    def order(*names):
        made = [
            result(name, *(1.0 - 0.1 * place + 0.001 * seed for seed in range(3))) for place, name in enumerate(names)
        ]
        return standings(made)

    names = ("full_reset", "vanilla", "aid", "l2")
    assert agreement(order(*names), order(*names)) == (pytest.approx(1.0), 4)
    assert agreement(order(*names), order(*reversed(names))) == (pytest.approx(-1.0), 4)
    assert agreement(order(*names), order("full_reset", "vanilla")) is None


def test_only_entries_on_all_problems_have_a_mean_rank_and_move_those_of_others():
    made = [result(name, *scores) for name, scores in (("full_reset", (0.9, 0.91, 0.9)), ("vanilla", (0.5, 0.5, 0.51)))]
    made += [replace(one, problem="label_noise") for one in made] + [result("aid", 0.95, 0.95, 0.96)]
    order = standings(made)
    assert [(one.entry, one.mean_rank) for one in order] == [("full_reset", 1.0), ("vanilla", 2.0), ("aid", None)]
    assert (order[-1].without, order[-1].cells["random_labels"].rank) == (None, 1.0)
    assert [one.cells["random_labels"].places for one in order] == [(2, 2), (3, 3), (1, 1)]  # the best of the three
    assert [one.mean_rank for one in standings(made, counted={"random_labels"})] == [1.0, 2.0, 3.0]
    assert agreement(order, order) is None  # two that have a rank


def test_a_problem_on_which_the_reference_learned_nothing_gives_no_ranks():
    made = [result("full_reset", 0.9, 0.91, 0.9), result("vanilla", 0.5, 0.5, 0.51), result("aid", 0.3, 0.3, 0.31)]
    blank = [result("full_reset", 0.1, 0.1, 0.1), result("vanilla", 0.9, 0.91, 0.9)]
    order = standings([*made, *(replace(one, problem="label_noise") for one in blank)])
    assert [(one.entry, one.mean_rank) for one in order] == [("full_reset", 1.0), ("vanilla", 2.0), ("aid", 3.0)]
    assert {one.mean_rank for one in standings(blank)} == {None}


@pytest.mark.parametrize(
    ("problem", "scale", "chance"),
    [
        *((name, scale, 0.1) for name in PUBLISHED for scale in ("smoke", "quick", "full")),
        ("new_classes", "smoke", 0.1),  # the later of two stages has all ten classes
        ("new_classes", "quick", (1 / 6 + 1 / 8 + 1 / 10) / 3),
        ("new_classes", "full", (1 / 60 + 1 / 80 + 1 / 100) / 3),
        ("renamed_actions", "smoke", 0.109375),
        ("renamed_actions", "quick", 0.0555419921875),
        ("renamed_actions", "full", (1 - 4**-8) / 24),
    ],
)
def test_chance_is_that_of_the_scale(problem, scale, chance):
    (own,) = (one for one in PROBLEMS if one.name == problem)
    assert own.chance(scale) == pytest.approx(chance)


def test_scores_are_measured_from_the_chance_of_their_scale():
    (own,) = (one for one in PROBLEMS if one.name == "new_classes")
    made = [result("full_reset", 0.9, 0.9, problem="new_classes")]
    made.append(result("vanilla", own.chance("full"), own.chance("full"), problem="new_classes"))
    cells = {one.entry: one.cells["new_classes"] for one in standings(made, scale="full")}
    assert cells["vanilla"].relative == pytest.approx(0.0)
