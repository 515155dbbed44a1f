"""Axes: the ranges, ticks and number of decimals of a panel, shared by the picture and the page."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from matplotlib.ticker import MaxNLocator

from supple_lab.report.figure import Bars, Distribution, Level, Line, Panel, Range, Scale
from supple_lab.report.scale import backward, forward, inside, share, ticks
from supple_lab.report.tables import minus

MARGIN = 0.05  # of the data's own range, above and below


@dataclass(frozen=True, kw_only=True)
class Axes:
    """Where a panel begins and ends, and how values lie in between."""

    x_range: Range
    y_range: Range
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    positions: tuple[str, ...] = ()  # names of the places 0, 1, ... along x, where they have names
    counts: bool = False  # whether x is counted, as stages are: there is nothing between two whole numbers

    @property
    def decimals(self) -> int | None:
        """Decimals that tell a thousandth of the vertical axis; None where it is not linear."""
        if self.y_scale != "linear":
            return None
        return int(np.clip(3 - math.ceil(math.log10(self.y_range[1] - self.y_range[0])), 0, 6))

    def x_ticks(self, number: int) -> list[tuple[float, str]]:
        """Marked places along the horizontal axis: their names, or round numbers, whole ones where there are enough."""
        if self.positions:
            return [(float(place), name) for place, name in enumerate(self.positions)]
        found = self._linear_x_ticks(number) if self.x_scale == "linear" else ticks(self.x_range, self.x_scale, number)
        return [(tick, brief(tick)) for tick in found]

    def _linear_x_ticks(self, number: int) -> list[float]:
        low, high = self.x_range
        whole = self.counts or high - low >= number
        locator = MaxNLocator(number, integer=whole, steps=[1, 2, 5, 10], min_n_ticks=1)
        found = inside(self.x_range, locator.tick_values(low, high))
        crowded = len(found) > 1 and found[0] - low < (found[1] - found[0]) / 2
        return found if crowded or not float(low).is_integer() else [low, *found]

    def y_ticks(self, number: int) -> list[tuple[float, str]]:
        """Round numbers along the vertical axis."""
        return [(tick, brief(tick)) for tick in ticks(self.y_range, self.y_scale, number)]

    def across(self, x: np.ndarray) -> np.ndarray:
        """How far from the left edge, as a share of the width."""
        return share(x, self.x_range, self.x_scale)

    def up(self, y: np.ndarray) -> np.ndarray:
        """How far from the lower edge, as a share of the height."""
        return share(y, self.y_range, self.y_scale)

    def show(self, value: float) -> str:
        """A value as text, with a true minus sign."""
        if not math.isfinite(value):
            return "\N{EN DASH}"
        return minus(f"{value:.4g}" if self.decimals is None else f"{value:.{self.decimals}f}")


def brief(value: float) -> str:
    """A tick's number as text."""
    return minus(f"{value:g}")


def axes_of(panel: Panel | Bars | Distribution) -> Axes:
    """The axes that hold all that the panel shows."""
    if isinstance(panel, Panel):
        return _axes_of_curves(panel)
    middle = (-0.5, max(len(panel.positions), 1) - 0.5)
    if isinstance(panel, Bars):
        y_range = panel.y_range or grounded(span([np.zeros(1), *heights(panel.bars, panel.levels)]))
        return Axes(x_range=middle, y_range=y_range, positions=panel.positions)
    reach = [histogram.edges[reached(histogram.shares)] for histogram in panel.histograms]
    y_range = panel.y_range or padded(wide(span([*reach, *heights((), panel.levels)])), panel.y_scale)
    return Axes(x_range=middle, y_range=y_range, y_scale=panel.y_scale, positions=panel.positions)


def _axes_of_curves(panel: Panel) -> Axes:
    drawn = heights(panel.curves, panel.levels)
    positive = (value[value > 0] if panel.y_scale == "log" else value for value in drawn)
    x = [curve.x[curve.x > 0] if panel.x_scale == "log" else curve.x for curve in panel.curves]
    return Axes(
        x_range=wide(span(x), panel.x_scale),
        y_range=panel.y_range or padded(from_zero(span(positive), panel.y_scale), panel.y_scale),
        x_scale=panel.x_scale,
        y_scale=panel.y_scale,
        counts=all(np.equal(np.mod(values, 1.0), 0.0).all() for values in x),
    )


def heights(lines: tuple[Line, ...], levels: tuple[Level, ...]) -> list[np.ndarray]:
    """All that must fit between the lower and the upper edge."""
    ends = [edge for line in lines for edge in (line.low, line.high, line.middle)]
    return [*ends, np.array([level.value for level in levels])]


def reached(shares: np.ndarray) -> np.ndarray:
    """Places of the edges of the bins that hold anything."""
    full = np.flatnonzero(shares > 0)
    return np.array([full[0], full[-1] + 1]) if len(full) else np.zeros(0, dtype=int)


def span(arrays: Iterable[np.ndarray]) -> Range:
    """Smallest and largest finite number; (0, 1) where there is none."""
    numbers = np.concatenate([np.zeros(0), *arrays])
    numbers = numbers[np.isfinite(numbers)]
    return (float(numbers.min()), float(numbers.max())) if len(numbers) else (0.0, 1.0)


def wide(ends: Range, scale: Scale = "linear") -> Range:
    """The range itself, or room around its only number."""
    low, high = ends
    if scale == "log":
        low = low if low > 0 else high / 10  # zero has no place on a logarithmic axis
        return (low, high) if high > low else (low / 2, low * 2)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def from_zero(ends: Range, scale: Scale) -> Range:
    """The range itself, or its only number half way up from zero: an accuracy's axis need not go below that."""
    low, high = ends
    if low < high or not low or scale == "log":
        return wide(ends, scale)
    return (0.0, 2 * low) if low > 0 else (2 * low, 0.0)


def padded(ends: Range, scale: Scale) -> Range:
    """The range with a margin."""
    low, high = forward(np.array(ends), scale)
    margin = MARGIN * (high - low)
    below, above = backward(np.array([low - margin, high + margin]), scale)
    return float(below), float(above)


def grounded(ends: Range) -> Range:
    """The range with a margin on the sides where it leaves zero: bars stand on it."""
    low, high = padded(wide(ends), "linear")
    return (0.0 if ends[0] == 0 else low), (0.0 if ends[1] == 0 and ends[0] < 0 else high)


def calmest_end(curves: tuple[Line, ...], value: float) -> str:
    """'left' or 'right': the end of a horizontal line at the value where the curves leave most room for a word."""
    rooms = [
        min((abs(float(curve.middle[end]) - value) for curve in curves if len(curve.x)), default=0.0) for end in (0, -1)
    ]
    return "left" if rooms[0] >= rooms[1] else "right"
