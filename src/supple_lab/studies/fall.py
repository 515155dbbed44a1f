"""Fall: how much of its accuracy a network has lost by the end, the number that the claims on trainability rest on."""

import numpy as np

from supple_lab.report.results import Results
from supple_lab.report.sample import Sample

KEPT = 0.05  # a smaller fall is none: five points
LEARNED = 0.1 + KEPT  # chance among ten classes, and five points: who is below it has nothing to keep


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
