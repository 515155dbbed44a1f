"""Stage curves: a metric over the stages, one line a method."""

import math
from collections.abc import Mapping

import numpy as np

from supple_lab.report.panel import Curve
from supple_lab.report.results import Results
from supple_lab.studies.labels import label_of

MAX_POINTS = 100  # of a curve: more of them are a thick band of noise
ByMethod = Mapping[str, Results]


def stage_curves(by_method: ByMethod, metric: str) -> tuple[Curve, ...]:
    """One curve for each method there is anything to draw of; the band is one standard deviation, as in the paper."""
    size = num_averaged(by_method, metric)
    return tuple(
        stage_curve(name, results, metric, size=size)
        for name, results in by_method.items()
        if results.drawn and len(results.stages(metric))
    )


def stage_curve(method: str, results: Results, metric: str, *, size: int) -> Curve:
    """The metric's means over so many stages at a time, each drawn at the last of them."""
    stages, values = results.stages(metric) + 1, results.matrix(metric)
    starts = np.arange(0, len(stages), size)
    ends = np.append(starts[1:], len(stages))
    return Curve(
        method=method,
        label=label_of(method),
        x=stages[ends - 1],
        values=np.add.reduceat(values, starts, axis=1) / (ends - starts),
        band="deviation",
    )


def num_averaged(by_method: ByMethod, metric: str) -> int:
    """How many stages a point stands for: one, unless a curve had more points than can be told apart."""
    longest = max((len(results.stages(metric)) for results in by_method.values()), default=1)
    return max(1, math.ceil(longest / MAX_POINTS))


def stage_label(by_method: ByMethod, metric: str) -> str:
    """What the horizontal axis is called: it tells where a point stands for several stages."""
    size = num_averaged(by_method, metric)
    return "stage" if size == 1 else f"stage (points: means of {size})"
