"""Shape: a panel as geometry in percent of its plot area: it stretches with the page, and its text does not."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from supple_lab.report.axes import Axes, calmest_end
from supple_lab.report.figure import AnyPanel, Level, Line

Kind = Literal["curves", "bars", "violins", "cells"]  # panel_KIND.html draws it
POINTS = "points: "  # begins the words in brackets that say what a point of a curve stands for


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A tick or a level: where it is, and what it says."""

    at: float
    label: str
    side: str = "left"


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """A table behind the figure, for a reader who wants the numbers."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """All that the page's template and script must know of a panel."""

    kind: Kind
    panel: AnyPanel
    parts: list[Any]  # what is drawn: CurveShape, BarShape, ViolinShape or Cell
    x_ticks: list[Mark] = field(default_factory=list)
    y_ticks: list[Mark] = field(default_factory=list)
    levels: list[Mark] = field(default_factory=list)
    summary: str = ""  # in words, for a reader who does not see it
    numbers: list[Numbers] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)  # for the values under the pointer
    extra: dict[str, Any] = field(default_factory=dict)  # what one kind alone needs


def x_marks(axes: Axes, number: int = 8) -> list[Mark]:
    """Ticks of the horizontal axis."""
    return [Mark(at=across(at, axes), label=label) for at, label in axes.x_ticks(number)]


def y_marks(axes: Axes) -> list[Mark]:
    """Ticks of the vertical axis."""
    return [Mark(at=down(at, axes), label=label) for at, label in axes.y_ticks(6)]


def level_marks(levels: tuple[Level, ...], lines: tuple[Line, ...], axes: Axes) -> list[Mark]:
    """Levels, with their names at the end where there is room."""
    return [
        Mark(at=down(level.value, axes), label=level.label, side=calmest_end(lines, level.value)) for level in levels
    ]


def across(x: float, axes: Axes) -> float:
    """Percent from the left edge."""
    return round(100 * float(axes.across(np.array(x))), 2)


def down(y: float, axes: Axes) -> float:
    """Percent from the top edge."""
    return round(100 - 100 * float(axes.up(np.array(y))), 2)


def line_data(line: Line, entry: int, axes: Axes) -> dict[str, Any]:
    """A line's numbers for the script, to one digit more than are shown."""
    edges = {"low": line.low, "high": line.high} if line.has_band else {}
    if line.bootstrap is not None:
        edges |= dict(zip(("lower", "upper"), line.bootstrap, strict=True))
    return {
        "entry": entry,
        "n": line.n,
        "line": line.statistic,
        "band": line.band_words,
        "x": line.x.tolist(),
        **{name: rounded(values, axes) for name, values in {"middle": line.middle, **edges}.items()},
    }


def panel_data(panel: AnyPanel, axes: Axes, curves: list[dict[str, Any]]) -> dict[str, Any]:
    """What the script shows under the pointer."""
    return {
        "heading": heading_of(panel),
        "place": place_of(panel),
        "decimals": axes.decimals,
        "range": axes.x_range,
        "scale": axes.x_scale,
        "names": axes.positions or None,
        "curves": curves,
    }


def heading_of(panel: AnyPanel) -> str:
    """The horizontal axis' name without what stands in brackets, but for what a point is: "stage, means of 8"."""
    name, _, aside = panel.x_label.partition(" (")
    points = aside.removesuffix(")").removeprefix(POINTS)
    return f"{name}, {points}" if aside.startswith(POINTS) else name


def place_of(panel: AnyPanel) -> str:
    """What is said before a place's number: "stage" of "stage 7", "stage, means of 8:" of "stage, means of 8: 200"."""
    heading = heading_of(panel)
    return f"{heading}:" if "," in heading else heading


def rounded(values: np.ndarray, axes: Axes) -> list[float]:
    """The values to one digit more than are shown."""
    if axes.decimals is not None:
        return values.round(axes.decimals + 1).tolist()
    return [float(f"{value:.5g}") if math.isfinite(value) else math.nan for value in values.tolist()]


def path(line: list[tuple[float, float]]) -> str:
    """A line through the points."""
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in line)
