"""Thinning: fewer points on the page, which has to stay small; pictures and JSON keep every point."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from supple_lab.report.figure import Figure
from supple_lab.report.panel import AnyPanel, Curve, Line, Panel

MAX_POINTS = 6_000  # of all curves together; a point takes about 220 bytes of the page, which may have 2 MB


def thinned(figures: Sequence[Figure]) -> list[Figure]:
    """The figures with at most so many points in all, evenly left out."""
    panels = [panel for figure in figures for panel in figure.panels if isinstance(panel, Panel)]
    num_points = sum(len(curve.x) for panel in panels for curve in panel.curves)
    step = max(1, math.ceil(num_points / MAX_POINTS))
    return list(figures) if step == 1 else [_every(step, figure) for figure in figures]


def _every(step: int, figure: Figure) -> Figure:
    if not any(isinstance(panel, Panel) for panel in figure.panels):
        return figure
    caption = f"{figure.caption} (The page shows one point in {step}.)"
    return replace(figure, caption=caption, panels=tuple(_every_of_panel(step, panel) for panel in figure.panels))


def _every_of_panel(step: int, panel: AnyPanel) -> AnyPanel:
    if not isinstance(panel, Panel):
        return panel
    return replace(panel, curves=tuple(_every_point(step, curve) for curve in panel.curves))


def _every_point(step: int, curve: Line) -> Line:
    kept = slice((len(curve.x) - 1) % step, None, step)  # the last point is always among them
    if isinstance(curve, Curve):
        return replace(curve, x=curve.x[kept], values=curve.values[:, kept])
    parts: dict[str, np.ndarray] = {name: getattr(curve, name)[kept] for name in ("x", "middle", "low", "high")}
    return replace(curve, **parts)  # type: ignore[arg-type]
