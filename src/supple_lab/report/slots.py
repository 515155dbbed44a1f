"""Slots: where bars and sideways histograms stand, side by side at their position."""

from dataclasses import dataclass

import numpy as np

from supple_lab.report.legend import key_of
from supple_lab.report.panel import Bars, Distribution, Histogram, Line
from supple_lab.report.scale import forward

SHARE_OF_POSITION = 0.8  # that the group at a position takes; the rest keeps groups apart
SHARE_OF_SLOT = 0.9  # that a bar or the widest bin takes of its slot


@dataclass(frozen=True)
class Slot:
    """A place along the horizontal axis, in positions."""

    centre: float
    width: float


def slot(position: float, place: int, number: int) -> Slot:
    """The place-th of so many slots at a position."""
    width = SHARE_OF_POSITION / max(1, number)
    return Slot(position + (place - (number - 1) / 2) * width, width * SHARE_OF_SLOT)


def bar_slots(panel: Bars) -> list[tuple[Line, int, Slot]]:
    """Each bar with a height: its line, the place in that line, and where it stands."""
    return [
        (line, i, slot(float(line.x[i]), place, len(panel.bars)))
        for place, line in enumerate(panel.bars)
        for i in range(len(line.x))
        if np.isfinite(line.middle[i])
    ]


@dataclass(frozen=True)
class Violin:
    """A histogram on its side, mirrored: the outline's heights and half widths, and where it stands."""

    histogram: Histogram
    centre: float
    heights: np.ndarray  # (2 * bins,)
    half_widths: np.ndarray  # (2 * bins,), in positions

    def half_width_at(self, height: float) -> float:
        """How far the outline is from its middle at that height; a little where there is no bin."""
        bins = np.searchsorted(self.histogram.edges, height, side="right") - 1
        inside = 0 <= bins < len(self.histogram.shares)
        return max(float(self.half_widths[2 * bins]) if inside else 0.0, 0.1 * float(self.half_widths.max(initial=0.0)))


def violins(panel: Distribution) -> list[Violin]:
    """Every histogram's outline; a bin's width is its density on the scale of the axis, the densest one's is full."""
    keys = list(dict.fromkeys(key_of(histogram) for histogram in panel.histograms))
    outlines = []
    for histogram in panel.histograms:
        place = slot(panel.positions.index(histogram.position), keys.index(key_of(histogram)), len(keys))
        density = histogram.shares / np.diff(forward(histogram.edges, panel.y_scale))
        half = place.width / 2 * density / max(density.max(initial=0.0), 1e-300)
        outlines.append(Violin(histogram, place.centre, np.repeat(histogram.edges, 2)[1:-1], np.repeat(half, 2)))
    return outlines
