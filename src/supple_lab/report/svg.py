"""Panels as SVG geometry, in percent of the plot area: a curve stretches with the page, and its text does not."""

from dataclasses import dataclass

import numpy as np

from supple_lab.report.axes import Axes, axes_of, calmest_end
from supple_lab.report.colours import Look
from supple_lab.report.figure import Curve, Panel
from supple_lab.report.legend import Key, key_of
from supple_lab.report.plots import band_strength, marked_positions

Points = list[tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class CurveShape:
    """One curve as paths."""

    entry: int  # its place in the figure's legend
    look: Look
    line: str
    band: str  # empty for a single seed
    marks: Points
    curve: Curve


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A tick or a level: where it is, and what it says."""

    at: float
    label: str
    side: str = "left"


@dataclass(frozen=True, kw_only=True)
class PanelShape:
    """All that the page's template must draw."""

    panel: Panel
    axes: Axes
    x_ticks: list[Mark]
    y_ticks: list[Mark]
    levels: list[Mark]
    curves: list[CurveShape]

    @property
    def band_strength(self) -> float:
        """How opaque the bands are."""
        return band_strength(len(self.curves))

    def summary(self) -> str:
        """The panel in words, for a reader who does not see it."""
        parts = [
            f"{shape.curve.label}: from {self.axes.show(shape.curve.mean[0])} to {self.axes.show(shape.curve.mean[-1])}"
            for shape in self.curves
        ]
        return f"{self.panel.y_label} against {self.panel.x_label}. {'; '.join(parts) or 'No finished runs yet'}."


def panel_shape(panel: Panel, looks: dict[Key, Look]) -> PanelShape:
    """The panel's geometry; what stands out is drawn last, over the others."""
    axes = axes_of(panel)
    entries = list(looks)
    curves = [_curve_shape(curve, axes, entry=entries.index(key_of(curve)), looks=looks) for curve in panel.curves]
    return PanelShape(
        panel=panel,
        axes=axes,
        x_ticks=[Mark(at=across(tick, axes), label=f"{tick:g}") for tick in axes.x_ticks(8) if panel.curves],
        y_ticks=[
            Mark(at=down(tick, axes), label=f"{tick:g}".replace("-", "\N{MINUS SIGN}")) for tick in axes.y_ticks(6)
        ],
        levels=[
            Mark(at=down(level.value, axes), label=level.label, side=calmest_end(panel.curves, level.value))
            for level in panel.levels
        ],
        curves=sorted(curves, key=lambda shape: shape.look.stands_out),
    )


def _curve_shape(curve: Curve, axes: Axes, *, entry: int, looks: dict[Key, Look]) -> CurveShape:
    line = points(curve.x, curve.mean, axes)
    marks = [line[i] for i in marked_positions(len(line)) if np.isfinite(curve.mean[i])] if line else []
    return CurveShape(
        entry=entry,
        look=looks[key_of(curve)],
        line="".join(_path(piece) for piece in pieces(line)),
        band=_band(curve, axes) if len(curve.values) > 1 else "",
        marks=marks,
        curve=curve,
    )


def _band(curve: Curve, axes: Axes) -> str:
    low, high = points(curve.x, curve.low, axes), points(curve.x, curve.high, axes)
    there = zip(pieces(low), pieces(high), strict=True)
    return "".join(f"{_path(above + below[::-1])}z" for below, above in there)


def points(x: np.ndarray, y: np.ndarray, axes: Axes) -> Points:
    """Positions in percent from the left and from the top."""
    return [(across(float(a), axes), down(float(b), axes)) for a, b in zip(x, y, strict=True)]


def pieces(line: Points) -> list[Points]:
    """The line cut where a value is not finite."""
    cut: list[Points] = [[]]
    for point in line:
        if np.isfinite(point[1]):
            cut[-1].append(point)
        elif cut[-1]:
            cut.append([])
    return [piece for piece in cut if piece]


def across(x: float, axes: Axes) -> float:
    """Percent from the left edge."""
    low, high = axes.x_range
    return round(100 * (x - low) / (high - low), 2)


def down(y: float, axes: Axes) -> float:
    """Percent from the top edge."""
    low, high = axes.y_range
    return round(100 * (high - y) / (high - low), 2)


def _path(line: Points) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in line)
