"""Fall: how much of its accuracy a network has lost by the end, the number that the claims on trainability rest on.

How far a network falls depends on problem, optimizer and length, so that no number of points tells for all of them who
has kept its plasticity: on permuted pixels with Adam 1e-3 the vanilla network, the very example of its loss, falls by
five points in 800 stages, on random labels down to chance. So a fall is held against the vanilla network's of the same
seed.
"""

from dataclasses import replace
from typing import Unpack

import numpy as np

from supple_lab.report.figure import ClaimRow
from supple_lab.report.results import Results
from supple_lab.report.sample import Sample
from supple_lab.report.verdict import Words, claim_above, claim_difference_above, claim_difference_below
from supple_lab.studies.paired import times

HALF = 0.5  # of the vanilla network's fall: who falls less has kept its plasticity, who falls further has lost it
FIVE_POINTS = 0.05  # between levels, and between falls on random labels, where the whole way to chance is ninety
LEARNED = 0.1 + FIVE_POINTS  # chance among ten classes, and five points: who is below it has nothing to keep


def claim_kept(fall: Sample, vanilla: Sample, **words: Unpack[Words]) -> ClaimRow:
    """The claim that a method falls less than half as far as the vanilla network, seed by seed."""
    row = claim_difference_below(fall, times(vanilla, HALF), quantity="fall minus half of vanilla's", **words)
    return where_vanilla_falls(row, vanilla.of_seeds(fall.seeds), words)


def claim_lost(fall: Sample, vanilla: Sample, **words: Unpack[Words]) -> ClaimRow:
    """The claim that a method falls more than half as far as the vanilla network, seed by seed."""
    row = claim_difference_above(fall, times(vanilla, HALF), quantity="fall minus half of vanilla's", **words)
    return where_vanilla_falls(row, vanilla.of_seeds(fall.seeds), words)


def where_vanilla_falls(row: ClaimRow, vanilla: Sample, words: Words) -> ClaimRow:
    """The row as it is if the vanilla network's fall is above 0; else not decided, for nothing tells how far is far."""
    if row.verdict == "not run":
        return row
    falls = claim_above(vanilla, 0.0, quantity="vanilla's fall", **words)
    if falls.verdict == "holds":
        return replace(row, chance=max(row.chance, falls.chance))
    why = "vanilla does not fall" if falls.verdict == "fails" else "not decided that vanilla falls"
    return replace(row, verdict="not decided", measured=f"{row.measured}; {why}: {falls.measured}", chance=1.0)


def fall_of(values: np.ndarray) -> float:
    """The mean over the first tenth of the stages minus that over the last tenth; not a number without any."""
    return first_tenth(values) - last_tenth(values)


def first_tenth(values: np.ndarray) -> float:
    """The mean over the first tenth of the stages, one at least; not a number without any."""
    return float(values[: tenth(values)].mean()) if len(values) else float("nan")


def last_tenth(values: np.ndarray) -> float:
    """The mean over the last tenth of the stages, one at least; not a number without any."""
    return float(values[-tenth(values) :].mean()) if len(values) else float("nan")


def tenth(values: np.ndarray) -> int:
    """How many stages are a tenth."""
    return max(1, round(len(values) / 10))


def falls(results: Results, metric: str) -> Sample:
    """The fall of every run that ended."""
    return results.sample(lambda run: fall_of(run.values(metric)))


def beginnings(results: Results, metric: str) -> Sample:
    """The first tenth of every run that ended: what a network can do before it has lost anything."""
    return results.sample(lambda run: first_tenth(run.values(metric)))


def ends(results: Results, metric: str) -> Sample:
    """The last tenth of every run that ended."""
    return results.sample(lambda run: last_tenth(run.values(metric)))
