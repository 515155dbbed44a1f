"""Scales of an axis: how a value becomes a place on it, and which values are marked."""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from matplotlib.ticker import MaxNLocator

from supple_lab.report.figure import Range, Scale

STEPS = [1, 2, 2.5, 5, 10]


def forward(values: np.ndarray, scale: Scale) -> np.ndarray:
    """Places of the values; not a number where a logarithm has none."""
    values = np.asarray(values, dtype=float)
    if scale == "linear":
        return values
    if scale == "symlog":
        return np.arcsinh(values)  # x near zero, log(2x) far from it
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values > 0, np.log(values), np.nan)


def backward(places: np.ndarray, scale: Scale) -> np.ndarray:
    """The values at the places."""
    undo: dict[Scale, Callable[[np.ndarray], np.ndarray]] = {"symlog": np.sinh, "log": np.exp}
    return undo[scale](places) if scale in undo else np.asarray(places, dtype=float)


def share(values: np.ndarray, ends: Range, scale: Scale) -> np.ndarray:
    """How far along the axis the values lie, 0 at its beginning and 1 at its end."""
    low, high = forward(np.array(ends), scale)
    return (forward(values, scale) - low) / (high - low)


def ticks(ends: Range, scale: Scale, number: int) -> list[float]:
    """At most about so many round values inside the range."""
    if scale == "linear":
        return inside(ends, MaxNLocator(number, steps=STEPS).tick_values(*ends))
    powers = inside(ends, decades(ends) if scale == "log" else [*(-decades(ends)), 0.0, *decades(ends)])
    if len(powers) < 3:  # less than two decades: the powers of ten alone would leave the axis bare
        powers = inside(ends, np.outer(decades(ends), [1, 2, 5]).ravel() if scale == "log" else linear_ticks(ends))
    return sorted(powers)[:: math.ceil(len(powers) / (number + 1))]


def decades(ends: Range) -> np.ndarray:
    """The powers of ten around the range; from 1 upwards where it reaches zero."""
    sizes = [abs(end) for end in ends if end]
    low = min(sizes) if min(ends) > 0 else 1.0
    return 10.0 ** np.arange(math.floor(math.log10(low)), math.ceil(math.log10(max(low, *sizes))) + 1)


def linear_ticks(ends: Range) -> Sequence[float]:
    """Evenly spaced round values."""
    return MaxNLocator(5, steps=STEPS).tick_values(*ends)


def inside(ends: Range, values: Iterable[float]) -> list[float]:
    """The values inside the range."""
    slack = 1e-9 * (ends[1] - ends[0])
    return sorted({float(value) for value in values if ends[0] - slack <= value <= ends[1] + slack})
