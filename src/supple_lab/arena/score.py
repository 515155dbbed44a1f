"""Scores: what each entry learns beside the reference, its rank with ties, and how sure both are.

The relative score of a seed is (its score - chance) / (mean score of the reference - chance), scores being means of the
later half of the stages; 1 learns what a fresh network tuned alike does. Intervals are Student's, over seeds.

Ranks, problem by problem: an entry is better than another if the 95% interval of their difference by seed lies above 0.
With b entries better than it and w worse, the place of an entry among n is between 1 + b and n - w; its rank is the
middle. Mean ranks are among the entries on all problems: one on some of them has its places, and moves no mean rank. An
entry whose seeds differ much is neither better nor worse than most, and its rank is in the middle of all.
"""

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from supple_lab.arena.contest import NUM_DIGITS, WORST, ContestResult
from supple_lab.arena.entries import REFERENCE
from supple_lab.arena.problems import PROBLEMS, Scale
from supple_lab.results.intervals import mean_interval

Interval = tuple[float, float]
LEAST = 10.0**-NUM_DIGITS  # that can be learned: less is the rounding of scores
BY_NAME = {problem.name: problem for problem in PROBLEMS}
RULE = "the rule of 17 November 2026, which is younger than the runs at quick scale on the first four problems"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One entry on one problem."""

    result: ContestResult
    mean: float  # the score itself
    relative: float  # nan if the reference learned nothing
    interval: Interval | None  # of the relative score
    train: float | None  # accuracy on the training images, relative likewise; None if the reference has none, or chance
    places: tuple[int, int]  # the first and the last that it may have

    @property
    def rank(self) -> float:
        return sum(self.places) / 2

    @property
    def leads(self) -> bool:
        """Whether no entry is better."""
        return self.places[0] == 1


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


def places_of(scores: Mapping[str, np.ndarray]) -> dict[str, tuple[int, int]]:
    """By entry, the first and the last place that it may have, counted from 1."""
    worse = {name: [other for other in scores if is_better(scores[name], scores[other])] for name in scores}
    num_better = Counter(itertools.chain.from_iterable(worse.values()))
    return {name: (1 + num_better[name], len(scores) - len(worse[name])) for name in scores}


def is_better(one: np.ndarray, other: np.ndarray) -> bool:
    interval = mean_interval(one - other)
    return interval is not None and interval[0] > 0.0


def standings(
    results: Iterable[ContestResult], *, scale: Scale = "quick", counted: Collection[str] | None = None
) -> list[Standing]:
    """All entries, the lowest mean rank first; without the problems on which the reference was not run.

    counted: problems that the mean rank is of, so that all entries are compared on the same; None: all. Those on which
    the reference learned nothing are never counted.
    """
    by_problem: dict[str, dict[str, ContestResult]] = {}
    for result in results:
        by_problem.setdefault(result.problem, {})[result.entry] = result
    cells: dict[str, dict[str, Cell]] = {}
    shown = {problem: entered for problem, entered in by_problem.items() if REFERENCE in entered}
    for problem, entered in shown.items():
        for entry, cell in cells_of(entered, BY_NAME[problem].chance(scale)).items():
            cells.setdefault(entry, {})[problem] = cell
    taught = [problem for problem in shown if not math.isnan(cells[REFERENCE][problem].relative)]
    ranked = [problem for problem in taught if counted is None or problem in counted]
    whole = [entry for entry in cells if all(entry in shown[problem] for problem in ranked)]
    ranks = [ranks_among(whole, shown[problem], BY_NAME[problem].chance(scale)) for problem in ranked]
    order = [standing_of(entry, own, [of[entry] for of in ranks if entry in of]) for entry, own in cells.items()]
    return sorted(order, key=lambda one: math.inf if one.mean_rank is None else one.mean_rank)


def cells_of(entered: Mapping[str, ContestResult], chance: float) -> dict[str, Cell]:
    scores = {entry: scores_of(result, chance) for entry, result in entered.items()}
    places, reference = places_of(scores), entered[REFERENCE]
    unit, found = learned(scores[REFERENCE], chance), {}
    for entry, result in entered.items():
        relative = (scores[entry] - chance) / unit
        found[entry] = Cell(
            result=result,
            mean=float(scores[entry].mean()),
            relative=float(relative.mean()),
            interval=mean_interval(relative),
            train=relative_training(result, reference, chance),
            places=places[entry],
        )
    return found


def learned(scores: Sequence[float] | np.ndarray, chance: float) -> float:
    """The mean beyond chance; nan if nothing was learned, beside which nothing can be said."""
    unit = float(np.mean(scores)) - chance
    return unit if unit > LEAST else math.nan


def relative_training(result: ContestResult, reference: ContestResult, chance: float) -> float | None:
    own, fresh = ([run.train for run in one.seeds if run.train is not None] for one in (result, reference))
    if not own or not fresh or math.isnan(unit := learned(fresh, chance)):
        return None
    return (float(np.mean(own)) - chance) / unit


def ranks_among(entries: Iterable[str], entered: Mapping[str, ContestResult], chance: float) -> dict[str, float]:
    """Of these entries on one problem, as if there were no others."""
    places = places_of({entry: scores_of(entered[entry], chance) for entry in entries})
    return {entry: sum(own) / 2 for entry, own in places.items()}


def standing_of(entry: str, cells: Mapping[str, Cell], ranks: Sequence[float]) -> Standing:
    if not ranks:
        return Standing(entry=entry, cells=cells, mean_rank=None, without=None)
    others = [np.mean([*ranks[:i], *ranks[i + 1 :]]) for i in range(len(ranks))] if len(ranks) > 1 else ranks
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
