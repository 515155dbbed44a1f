"""Fall: how much of its accuracy a network has lost by the end, the number that the claims on trainability rest on."""

import numpy as np

from supple_lab.report.results import Results
from supple_lab.report.sample import Sample

KEPT = 0.05  # a smaller fall is none: five points


def fall_of(values: np.ndarray) -> float:
    """The mean over the first tenth of the stages minus that over the last tenth; not a number without any."""
    if not len(values):
        return float("nan")
    tenth = max(1, round(len(values) / 10))
    return float(values[:tenth].mean() - values[-tenth:].mean())


def falls(results: Results, metric: str) -> Sample:
    """The fall of every run that ended."""
    return results.sample(lambda run: fall_of(run.values(metric)))
