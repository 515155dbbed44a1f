"""Scores: what each entry learns beside the reference, its rank with ties, and how sure both are.

The relative score of a seed is (its score - chance) / (mean score of the reference - chance), scores being means of the
later half of the stages; 1 learns what a fresh network tuned alike does. Intervals are Student's, over seeds.

Ranks, problem by problem: the best entry and all whose difference from it by seed has a 95% interval that holds 0 are
tied and share the mean of their places; then the best of the rest and those tied with it, and so on.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from supple_lab.arena.contest import WORST, ContestResult
from supple_lab.arena.entries import BASELINE, REFERENCE
from supple_lab.arena.problems import PROBLEMS, Scale
from supple_lab.results.intervals import mean_interval

Interval = tuple[float, float]
BY_NAME = {problem.name: problem for problem in PROBLEMS}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One entry on one problem."""

    result: ContestResult
    mean: float  # the score itself
    relative: float
    interval: Interval | None  # of the relative score
    train: float | None  # accuracy on the training images, relative likewise
    cost: float | None  # seconds beside the baseline's
    rank: float
    tied: bool  # with the best of its problem


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One entry on all problems that it was run on."""

    entry: str
    cells: Mapping[str, Cell]  # by problem
    mean_rank: float | None  # None if it was not run on all problems that count
    without: Interval | None  # lowest and highest mean rank with one problem left out


def scores_of(result: ContestResult, chance: float) -> np.ndarray:
    """A number a seed; a run that diverged or failed learned nothing."""
    later = np.array([run.later_score for run in result.seeds])
    return np.where(later == WORST, chance, later)


def ranks_of(scores: Mapping[str, np.ndarray]) -> dict[str, tuple[float, int]]:
    """By entry: its rank, ties sharing the mean of their places, and the number of its group, counted from 0."""
    left = sorted(scores, key=lambda name: -scores[name].mean())
    ranks: dict[str, tuple[float, int]] = {}
    group = 0
    while left:
        group_names = [name for name in left if is_tied(scores[left[0]], scores[name])]
        place = len(ranks) + (len(group_names) + 1) / 2
        ranks |= dict.fromkeys(group_names, (place, group))
        left, group = [name for name in left if name not in group_names], group + 1
    return ranks


def is_tied(best: np.ndarray, other: np.ndarray) -> bool:
    """Whether the differences by seed leave open which one is better."""
    differences = best - other
    interval = mean_interval(differences)
    return bool(np.all(differences == 0.0)) or interval is None or interval[0] <= 0.0 <= interval[1]


def standings(
    results: Iterable[ContestResult], *, scale: Scale = "quick", counted: Collection[str] | None = None
) -> list[Standing]:
    """All entries, the lowest mean rank first; without the problems on which the reference was not run.

    counted: problems that the mean rank is of, so that all entries are compared on the same; None: all.
    """
    by_problem: dict[str, dict[str, ContestResult]] = {}
    for result in results:
        by_problem.setdefault(result.problem, {})[result.entry] = result
    cells: dict[str, dict[str, Cell]] = {}
    shown = {problem: entered for problem, entered in by_problem.items() if REFERENCE in entered}
    for problem, entered in shown.items():
        for entry, cell in cells_of(entered, BY_NAME[problem].chance(scale)).items():
            cells.setdefault(entry, {})[problem] = cell
    ranked = [problem for problem in shown if counted is None or problem in counted]
    order = [standing_of(entry, own, ranked) for entry, own in cells.items()]
    return sorted(order, key=lambda one: math.inf if one.mean_rank is None else one.mean_rank)


def cells_of(entered: Mapping[str, ContestResult], chance: float) -> dict[str, Cell]:
    """Every entry on one problem."""
    scores = {entry: scores_of(result, chance) for entry, result in entered.items()}
    ranks, reference = ranks_of(scores), entered[REFERENCE]
    unit = float(scores[REFERENCE].mean()) - chance
    unit = unit if unit > 0.0 else float("nan")  # where the reference learns nothing, nothing can be said
    seconds = {entry: float(np.median([run.seconds for run in result.seeds])) for entry, result in entered.items()}
    found = {}
    for entry, result in entered.items():
        relative = (scores[entry] - chance) / unit
        found[entry] = Cell(
            result=result,
            mean=float(scores[entry].mean()),
            relative=float(relative.mean()),
            interval=mean_interval(relative),
            train=relative_training(result, reference, chance),
            cost=seconds[entry] / seconds[BASELINE] if seconds.get(BASELINE) else None,
            rank=ranks[entry][0],
            tied=ranks[entry][1] == 0,
        )
    return found


def relative_training(result: ContestResult, reference: ContestResult, chance: float) -> float | None:
    own, fresh = ([run.train for run in one.seeds if run.train is not None] for one in (result, reference))
    return (float(np.mean(own)) - chance) / (float(np.mean(fresh)) - chance) if own and fresh else None


def standing_of(entry: str, cells: Mapping[str, Cell], ranked: Sequence[str]) -> Standing:
    ranks = [cells[problem].rank for problem in ranked if problem in cells]
    if not ranks or len(ranks) < len(ranked):
        return Standing(entry=entry, cells=cells, mean_rank=None, without=None)
    others = [np.mean(ranks[:i] + ranks[i + 1 :]) for i in range(len(ranks))] if len(ranks) > 1 else ranks
    return Standing(
        entry=entry, cells=cells, mean_rank=float(np.mean(ranks)), without=(float(min(others)), float(max(others)))
    )


def agreement(first: Sequence[Standing], second: Sequence[Standing]) -> tuple[float, int] | None:
    """Spearman's correlation of the mean ranks of the entries that both have, and their number; None below three."""
    ours, theirs = (
        {one.entry: one.mean_rank for one in standing if one.mean_rank is not None} for standing in (first, second)
    )
    both = [entry for entry in ours if entry in theirs]
    if len(both) < 3:
        return None
    found = stats.spearmanr([ours[entry] for entry in both], [theirs[entry] for entry in both])
    return float(found.statistic), len(both)
