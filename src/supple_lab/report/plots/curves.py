"""Curves of a picture. Line: the mean over seeds; band: their range, or what the curve says it is."""

import numpy as np
from matplotlib.axes import Axes as Canvas
from matplotlib.lines import Line2D

from supple_lab.report.axes import axes_of
from supple_lab.report.colours import Look, Marker
from supple_lab.report.legend import Key, band_strength, key_of, marked_positions
from supple_lab.report.panel import Line, Panel
from supple_lab.report.plots.frame import draw_levels_, frame_, say_nothing_

LABEL_GAP = 0.058  # of the axes' height: one line of text
SHAPES: dict[Marker, str] = {
    "circle": "o",
    "square": "s",
    "up": "^",
    "down": "v",
    "diamond": "D",
    "plus": "P",
    "cross": "X",
    "star": "*",
    "left": "<",
    "right": ">",
}
SIZES: dict[Marker, float] = {"star": 8.0, "plus": 6.2, "cross": 6.2, "up": 5.4, "down": 5.4, "left": 5.4, "right": 5.4}


def draw_curves_(canvas: Canvas, panel: Panel, looks: dict[Key, Look]) -> None:
    """Axes, levels, bands and lines."""
    frame_(canvas, panel, axes_of(panel))
    draw_levels_(canvas, panel.levels, panel.curves)
    for curve in panel.curves:
        look = looks[key_of(curve)]
        if curve.dots:
            draw_dots_(canvas, curve, look)
        else:
            draw_curve_(canvas, curve, look, strength=band_strength(len(panel.curves)))
    if not panel.curves:
        say_nothing_(canvas, panel)


def draw_curve_(canvas: Canvas, curve: Line, look: Look, *, strength: float) -> None:
    """A line with markers over its band."""
    order = 4 if look.stands_out else 3
    if curve.has_band:
        band = canvas.fill_between(curve.x, curve.low, curve.high, color=look.light, alpha=strength, linewidth=0)
        band.set(zorder=order - 1, gid="band")
    line = line_of(look, label=curve.label)
    line.set_data(curve.x, curve.middle)
    line.set(zorder=order, gid="curve", markevery=marked_positions(curve))
    canvas.add_line(line)


def draw_dots_(canvas: Canvas, curve: Line, look: Look) -> None:
    """Markers with error bars."""
    order = 4 if look.stands_out else 3
    if curve.has_band:
        bars = canvas.vlines(curve.x, curve.low, curve.high, color=look.light, linewidth=1.4)
        bars.set(zorder=order - 1, gid="band")
    line = line_of(look, label=curve.label)
    line.set_data(curve.x, curve.middle)
    line.set(zorder=order, gid="curve", linestyle="none")
    canvas.add_line(line)


def line_of(look: Look, *, label: str) -> Line2D:
    """An empty line of that look: for a curve, or for its entry in the legend."""
    return Line2D(
        [],
        [],
        label=label,
        color=look.light,
        linewidth=2.6 if look.stands_out else 1.6,
        linestyle=(0, look.dashes) if look.dashes else "-",
        dash_capstyle="butt",
        solid_capstyle="round",
        marker=SHAPES[look.marker],
        markersize=SIZES.get(look.marker, 5.6 if look.stands_out else 4.8),
        markeredgecolor="white",
        markeredgewidth=0.6,
    )


def label_ends_(canvas: Canvas, panel: Panel, looks: dict[Key, Look]) -> None:
    """Each curve's name at its right end, moved apart where ends meet."""
    ends = [axes_of(panel).up(np.array(last_point(curve)[1])) for curve in panel.curves]
    heights = spread([float(end) for end in ends], LABEL_GAP)
    for curve, height in zip(panel.curves, heights, strict=True):
        look = looks[key_of(curve)]
        canvas.text(
            1.02,
            height,
            curve.label,
            transform=canvas.transAxes,
            color=look.light,
            va="center",
            fontweight="bold" if look.stands_out else "normal",
        )


def last_point(curve: Line) -> tuple[float, float]:
    """Where the line ends; (0, 0) for one without a finite value."""
    drawn = np.flatnonzero(np.isfinite(curve.middle))
    return (float(curve.x[drawn[-1]]), float(curve.middle[drawn[-1]])) if len(drawn) else (0.0, 0.0)


def spread(wanted: list[float], gap: float) -> list[float]:
    """The positions nearest to the wanted ones, in squares, that keep their order and lie a gap apart."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    blocks: list[tuple[float, int]] = []  # mean and size, pooled until the means rise (isotonic regression)
    for rank, i in enumerate(order):
        mean, size = wanted[i] - rank * gap, 1
        while blocks and blocks[-1][0] > mean:
            other, count = blocks.pop()
            mean, size = (mean * size + other * count) / (size + count), size + count
        blocks.append((mean, size))
    levels = [mean for mean, size in blocks for _ in range(size)]
    moved = {i: level + rank * gap for rank, (i, level) in enumerate(zip(order, levels, strict=True))}
    return [moved[i] for i in range(len(wanted))]
