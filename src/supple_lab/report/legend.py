"""Legend: which look each entry of a figure has, the same in all its panels."""

from collections import Counter

import numpy as np

from supple_lab.report.colours import Look, look_of_repeat
from supple_lab.report.figure import Figure
from supple_lab.report.panel import AnyPanel, Bars, Distribution, Histogram, Line, Panel

Key = tuple[str, str]  # method and label
NUM_MARKERS = 9  # a curve's markers are a key to the legend, not its data points
MAX_STRONG_BANDS = 6  # more of them at full strength cover the lines


def key_of(entry: Line | Histogram) -> Key:
    """What makes two curves of a figure entries of their own."""
    return entry.method, entry.label


def entries_of(panel: AnyPanel) -> tuple[Line | Histogram, ...]:
    """All that has a place in the legend."""
    if isinstance(panel, Panel):
        return panel.curves
    if isinstance(panel, Bars):
        return panel.bars
    return panel.histograms if isinstance(panel, Distribution) else ()


def legend_of(figure: Figure) -> dict[Key, Look]:
    """A look per entry, in the order of appearance; a method's further entries differ in dashes and marker."""
    keys = dict.fromkeys(key_of(entry) for panel in figure.panels for entry in entries_of(panel))
    repeats: Counter[str] = Counter()
    looks = {}
    for method, label in keys:
        looks[method, label] = look_of_repeat(method, repeats[method])
        repeats[method] += 1
    return looks


def marked_positions(curve: Line) -> list[int]:
    """Evenly spread positions that carry a marker, first and last among them; all of them for dots."""
    number = len(curve.x)
    spread = number if curve.dots else min(number, NUM_MARKERS)
    return np.unique(np.linspace(0, number - 1, spread).round().astype(int)).tolist()


def band_strength(num_curves: int) -> float:
    """How opaque a band is."""
    return 0.16 if num_curves <= MAX_STRONG_BANDS else 0.07
