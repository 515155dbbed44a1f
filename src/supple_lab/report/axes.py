"""Axes: the ranges, ticks and number of decimals of a panel, shared by the picture and the page."""

import math
from dataclasses import dataclass

import numpy as np
from matplotlib.ticker import MaxNLocator

from supple_lab.report.figure import Curve, Panel

Range = tuple[float, float]
MARGIN = 0.05  # of the data's own range, above and below


@dataclass(frozen=True, kw_only=True)
class Axes:
    """Where a panel begins and ends."""

    x_range: Range
    y_range: Range

    @property
    def decimals(self) -> int:
        """Decimals that tell a thousandth of the vertical axis."""
        return int(np.clip(3 - math.ceil(math.log10(self.y_range[1] - self.y_range[0])), 0, 6))

    def x_ticks(self, number: int) -> list[float]:
        """Round numbers along the horizontal axis, whole ones where there are enough, and its beginning."""
        low, high = self.x_range
        found = ticks(self.x_range, MaxNLocator(number, integer=high - low >= number, steps=[1, 2, 5, 10]))
        crowded = len(found) > 1 and found[0] - low < (found[1] - found[0]) / 2
        return found if crowded or not low.is_integer() else [low, *found]

    def y_ticks(self, number: int) -> list[float]:
        """Round numbers along the vertical axis."""
        return ticks(self.y_range, MaxNLocator(number, steps=[1, 2, 2.5, 5, 10]))

    def show(self, value: float) -> str:
        """A value as text, with a true minus sign."""
        return f"{value:.{self.decimals}f}".replace("-", "\N{MINUS SIGN}") if math.isfinite(value) else "\N{EN DASH}"


def axes_of(panel: Panel) -> Axes:
    """The axes that hold all curves and levels of the panel."""
    heights = [edge for curve in panel.curves for edge in (curve.low, curve.high)]
    levels = np.array([level.value for level in panel.levels])
    x_range = wide(span([curve.x for curve in panel.curves]))
    return Axes(x_range=x_range, y_range=panel.y_range or padded(wide(span([*heights, levels]))))


def span(arrays: list[np.ndarray]) -> Range:
    """Smallest and largest finite number; (0, 1) where there is none."""
    numbers = np.concatenate([np.zeros(0), *arrays])
    numbers = numbers[np.isfinite(numbers)]
    return (float(numbers.min()), float(numbers.max())) if len(numbers) else (0.0, 1.0)


def wide(ends: Range) -> Range:
    """The range itself, or room around its only number."""
    low, high = ends
    return ends if high > low else (low - 0.5, high + 0.5)


def padded(ends: Range) -> Range:
    """The range with a margin."""
    low, high = ends
    return low - MARGIN * (high - low), high + MARGIN * (high - low)


def ticks(ends: Range, locator: MaxNLocator) -> list[float]:
    """The locator's numbers inside the range."""
    low, high = ends
    slack = 1e-9 * (high - low)
    return [float(tick) for tick in locator.tick_values(low, high) if low - slack <= tick <= high + slack]


def calmest_end(curves: tuple[Curve, ...], value: float) -> str:
    """'left' or 'right': the end of a horizontal line at the value where the curves leave most room for a word."""
    rooms = [
        min((abs(float(curve.mean[end]) - value) for curve in curves if len(curve.x)), default=0.0) for end in (0, -1)
    ]
    return "left" if rooms[0] >= rooms[1] else "right"
