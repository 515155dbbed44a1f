"""Curves of the page."""

from dataclasses import dataclass

import numpy as np

from supple_lab.report.axes import Axes, axes_of, brief
from supple_lab.report.colours import Look
from supple_lab.report.figure import Bars, Key, Line, Panel, band_strength, key_of, marked_positions
from supple_lab.report.svg.shape import (
    Numbers,
    Shape,
    across,
    down,
    heading_of,
    level_marks,
    line_data,
    panel_data,
    path,
    x_marks,
    y_marks,
)

Points = list[tuple[float, float]]
ErrorBar = tuple[float, float, float]  # from the left, and two ends from the top


@dataclass(frozen=True, kw_only=True)
class CurveShape:
    """One curve as paths."""

    entry: int  # its place in the figure's legend
    look: Look
    line: str  # empty for dots
    band: str  # empty where there is none
    marks: Points
    error_bars: list[ErrorBar]


def curves_shape(panel: Panel, looks: dict[Key, Look]) -> Shape:
    """The panel's geometry; what stands out is drawn last, over the others."""
    axes = axes_of(panel)
    entries = list(looks)
    ordered = sorted(panel.curves, key=lambda curve: looks[key_of(curve)].stands_out)
    places = [entries.index(key_of(curve)) for curve in ordered]
    return Shape(
        kind="curves",
        panel=panel,
        parts=[
            _curve_shape(curve, axes, place, looks[key_of(curve)]) for curve, place in zip(ordered, places, strict=True)
        ],
        x_ticks=x_marks(axes) if panel.curves else [],
        y_ticks=y_marks(axes),
        levels=level_marks(panel.levels, panel.curves, axes),
        summary=summary(panel, panel.curves, axes),
        numbers=[numbers(panel, curve, axes) for curve in ordered],
        data=panel_data(panel, axes, [line_data(c, place, axes) for c, place in zip(ordered, places, strict=True)]),
        extra={"band_strength": band_strength(len(panel.curves))},
    )


def summary(panel: Panel | Bars, lines: tuple[Line, ...], axes: Axes) -> str:
    """The panel in words."""
    parts = [
        f"{line.label}: from {axes.show(line.middle[0])} to {axes.show(line.middle[-1])}"
        for line in lines
        if len(line.middle)
    ]
    return f"{panel.y_label} against {panel.x_label}. {'; '.join(parts) or panel.nothing.capitalize()}."


def numbers(panel: Panel | Bars, line: Line, axes: Axes) -> Numbers:
    """The line's values as a table, one column a position."""
    names = [axes.positions[int(x)] if axes.positions else brief(float(x)) for x in line.x]
    edges = ((line.edges[0], line.low), (line.edges[1], line.high)) if line.has_band else ()
    resampled = zip(("95% bootstrap from", "95% bootstrap to"), line.bootstrap or (), strict=bool(line.bootstrap))
    rows = ((line.statistic, line.middle), *edges, *resampled)
    return Numbers(
        caption=f"{panel.title}: {line.label}, n = {line.n}",
        header=(heading_of(panel), *names),
        rows=tuple((name, *(axes.show(float(y)) for y in values)) for name, values in rows),
    )


def _curve_shape(curve: Line, axes: Axes, entry: int, look: Look) -> CurveShape:
    line = points(curve.x, curve.middle, axes)
    return CurveShape(
        entry=entry,
        look=look,
        line="" if curve.dots else "".join(path(piece) for piece in pieces(line)),
        band=_band(curve, axes) if curve.has_band and not curve.dots else "",
        marks=[line[i] for i in marked_positions(curve) if np.isfinite(line[i][1])] if line else [],
        error_bars=_error_bars(curve, axes) if curve.has_band and curve.dots else [],
    )


def _band(curve: Line, axes: Axes) -> str:
    low, high = points(curve.x, curve.low, axes), points(curve.x, curve.high, axes)
    there = zip(pieces(low), pieces(high), strict=True)
    return "".join(f"{path(above + below[::-1])}z" for below, above in there)


def _error_bars(curve: Line, axes: Axes) -> list[ErrorBar]:
    ends = zip(curve.x, curve.low, curve.high, strict=True)
    return [(across(x, axes), down(low, axes), down(high, axes)) for x, low, high in ends if np.isfinite(low + high)]


def points(x: np.ndarray, y: np.ndarray, axes: Axes) -> Points:
    """Positions in percent from the left and from the top."""
    left, top = 100 * axes.across(x), 100 - 100 * axes.up(y)
    return list(zip(left.round(2).tolist(), top.round(2).tolist(), strict=True))


def pieces(line: Points) -> list[Points]:
    """The line cut where a value is not finite."""
    cut: list[Points] = [[]]
    for point in line:
        if np.isfinite(point[1]):
            cut[-1].append(point)
        elif cut[-1]:
            cut.append([])
    return [piece for piece in cut if piece]
