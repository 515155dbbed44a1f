"""Bars of the page."""

from dataclasses import dataclass

import numpy as np

from supple_lab.report.axes import Axes, axes_of
from supple_lab.report.colours import Look
from supple_lab.report.draw import Slot, bar_slots
from supple_lab.report.figure import Bars, Key, Line, key_of
from supple_lab.report.svg.curves import ErrorBar, numbers, summary
from supple_lab.report.svg.shape import Shape, across, down, level_marks, line_data, panel_data, x_marks, y_marks


@dataclass(frozen=True, kw_only=True)
class BarShape:
    """One bar: its box in percent, and its error bar."""

    entry: int
    look: Look
    left: float
    width: float
    top: float
    height: float
    error_bar: ErrorBar | None


def bars_shape(panel: Bars, looks: dict[Key, Look]) -> Shape:
    """The panel's geometry."""
    axes = axes_of(panel)
    entries = list(looks)
    return Shape(
        kind="bars",
        panel=panel,
        parts=[
            _bar(line, place, slot, axes=axes, entry=entries.index(key_of(line)), look=looks[key_of(line)])
            for line, place, slot in bar_slots(panel)
        ],
        x_ticks=x_marks(axes) if panel.bars else [],
        y_ticks=y_marks(axes),
        levels=level_marks(panel.levels, panel.bars, axes),
        summary=summary(panel, panel.bars, axes),
        numbers=[numbers(panel, line, axes) for line in panel.bars],
        data=panel_data(panel, axes, [line_data(line, entries.index(key_of(line)), axes) for line in panel.bars]),
        extra={"zero": down(float(np.clip(0.0, *axes.y_range)), axes)},
    )


def _bar(line: Line, place: int, slot: Slot, *, axes: Axes, entry: int, look: Look) -> BarShape:
    ends = np.clip([0.0, line.middle[place]], *axes.y_range)
    edges = sorted(down(float(end), axes) for end in ends)
    low, high = float(line.low[place]), float(line.high[place])
    spread = (across(slot.centre, axes), down(low, axes), down(high, axes))
    left, right = across(slot.centre - slot.width / 2, axes), across(slot.centre + slot.width / 2, axes)
    return BarShape(
        entry=entry,
        look=look,
        left=left,
        width=round(right - left, 2),
        top=edges[0],
        height=round(edges[1] - edges[0], 2),
        error_bar=spread if line.has_band and np.isfinite(low + high) else None,
    )
