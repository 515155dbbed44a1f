"""Distributions of the page: histograms on their sides, with their quartiles."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from supple_lab.report.axes import Axes, axes_of
from supple_lab.report.colours import Look
from supple_lab.report.draw import Violin, violins
from supple_lab.report.figure import Distribution, Histogram, Key, key_of
from supple_lab.report.svg.curves import points
from supple_lab.report.svg.shape import (
    Numbers,
    Shape,
    across,
    down,
    level_marks,
    panel_data,
    path,
    rounded,
    x_marks,
    y_marks,
)

Across = tuple[float, float, float]  # two ends from the left, and from the top


@dataclass(frozen=True, kw_only=True)
class ViolinShape:
    """One outline and its quartiles."""

    entry: int
    look: Look
    outline: str
    quartiles: tuple[Across, Across, Across]


def violins_shape(panel: Distribution, looks: dict[Key, Look]) -> Shape:
    """The panel's geometry."""
    axes = axes_of(panel)
    entries = list(looks)
    keys = dict.fromkeys(key_of(histogram) for histogram in panel.histograms)
    groups = {key: [one for one in panel.histograms if key_of(one) == key] for key in keys}
    return Shape(
        kind="violins",
        panel=panel,
        parts=[
            _violin(violin, axes, entries.index(key_of(violin.histogram)), looks[key_of(violin.histogram)])
            for violin in violins(panel)
        ],
        x_ticks=x_marks(axes),
        y_ticks=y_marks(axes),
        levels=level_marks(panel.levels, (), axes),
        summary=_summary(panel, axes),
        numbers=[_numbers(panel, label, group, axes) for (_, label), group in groups.items()],
        data=panel_data(panel, axes, [_data(group, entries.index(key), axes) for key, group in groups.items()]),
    )


def _violin(violin: Violin, axes: Axes, entry: int, look: Look) -> ViolinShape:
    low, high = axes.y_range
    heights = np.clip(violin.heights, low, high)
    left = points(violin.centre - violin.half_widths, heights, axes)
    right = points(violin.centre + violin.half_widths, heights, axes)
    first, median, third = (_across(violin, quartile, axes) for quartile in violin.histogram.quartiles)
    return ViolinShape(entry=entry, look=look, outline=f"{path(left + right[::-1])}z", quartiles=(first, median, third))


def _across(violin: Violin, height: float, axes: Axes) -> Across:
    half = violin.half_width_at(height)
    return across(violin.centre - half, axes), across(violin.centre + half, axes), down(height, axes)


def _summary(panel: Distribution, axes: Axes) -> str:
    parts = [f"{one.label}, {one.position}: median {axes.show(one.quartiles[1])}" for one in panel.histograms]
    return f"{panel.y_label} at {panel.x_label}. {'; '.join(parts) or 'No finished runs yet'}."


def _numbers(panel: Distribution, label: str, group: list[Histogram], axes: Axes) -> Numbers:
    names = ("first quartile", "median", "third quartile")
    return Numbers(
        caption=f"{panel.title}: {label}, n = {group[0].n}",
        header=("", *(one.position for one in group)),
        rows=tuple((name, *(axes.show(one.quartiles[i]) for one in group)) for i, name in enumerate(names)),
    )


def _data(group: list[Histogram], entry: int, axes: Axes) -> dict[str, Any]:
    quartiles = np.array([one.quartiles for one in group])
    low, middle, high = (rounded(column, axes) for column in quartiles.T)
    places = [axes.positions.index(one.position) for one in group]
    return {
        "entry": entry,
        "n": group[0].n,
        "line": "median",
        "band": "quartiles",
        "x": places,
        "middle": middle,
        "low": low,
        "high": high,
    }
