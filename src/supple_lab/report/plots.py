"""Plots: a figure as a matplotlib picture, PNG and PDF. Line: mean over seeds; band: their range."""

import io
import math
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes as Canvas
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Picture
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from supple_lab.report.axes import Axes, axes_of, calmest_end
from supple_lab.report.colours import Look, Marker
from supple_lab.report.figure import Curve, Figure, Level, Panel
from supple_lab.report.legend import Key, key_of, legend_of

DOTS_PER_INCH = 200
MAX_COLUMNS = 3
SINGLE_SIZE = (7.2, 4.0)  # inches: 1,440 x 800 dots, about twice what a README column shows
PANEL_SIZE = (3.9, 3.1)
LEGEND_ROW = 0.27  # inches
MAX_DIRECT_LABELS = 6  # more names at the line ends are slower to read than a legend
NUM_MARKERS = 9  # a curve's markers are a key to the legend, not its data points
MAX_STRONG_BANDS = 6  # more of them at full strength cover the lines
LABEL_GAP = 0.058  # of the axes' height: one line of text
INK, MUTED, RULE = "#1c2024", "#5f6872", "#e3e6e9"
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
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that all machines draw the same picture
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.unicode_minus": True,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "text.parse_math": False,  # a dollar sign in a label is a dollar sign
    "pdf.fonttype": 42,  # text stays text: it can be searched and edited
}


def picture_files(figure: Figure) -> dict[str, bytes]:
    """The figure as PNG and PDF files, by their endings; equal figures give equal bytes."""
    with rc_context(STYLE):
        drawn = picture(figure)
        return {
            "png": _saved(drawn, "png", {"Software": None}),
            "pdf": _saved(drawn, "pdf", {"CreationDate": None}),
        }


def _saved(drawn: Picture, kind: str, metadata: dict[str, None]) -> bytes:
    file = io.BytesIO()
    drawn.savefig(file, format=kind, dpi=DOTS_PER_INCH, metadata=metadata)
    drawn.set_layout_engine("none")  # laid out by the first save; the second would spend a second on the same answer
    return file.getvalue()


def picture(figure: Figure) -> Picture:
    """The figure drawn, without any global state of matplotlib."""
    looks = legend_of(figure)
    num_columns = max(1, min(len(figure.panels), MAX_COLUMNS))
    num_rows = max(1, math.ceil(len(figure.panels) / num_columns))
    direct = len(figure.panels) <= 1 and len(looks) <= MAX_DIRECT_LABELS
    legend_height = 0.0 if direct else LEGEND_ROW * math.ceil(len(looks) / _entries_in_a_row(num_columns))
    width, height = SINGLE_SIZE if num_columns == 1 else (num_columns * PANEL_SIZE[0], num_rows * PANEL_SIZE[1])
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1, hspace=0.04)
    drawn = Picture(figsize=(width, height + legend_height), layout=layout)
    FigureCanvasAgg(drawn)
    for place, panel in enumerate(figure.panels, start=1):
        draw_panel_(drawn.add_subplot(num_rows, num_columns, place), panel, looks)
    if direct:
        for canvas, panel in zip(drawn.axes, figure.panels, strict=True):
            label_ends_(canvas, panel, looks)
    else:
        add_legend_(drawn, looks, _entries_in_a_row(num_columns))
    return drawn


def draw_panel_(canvas: Canvas, panel: Panel, looks: dict[Key, Look]) -> None:
    """Axes, levels, bands and lines."""
    axes = axes_of(panel)
    frame_(canvas, panel, axes)
    for level in panel.levels:
        draw_level_(canvas, level, side=calmest_end(panel.curves, level.value))
    for curve in panel.curves:
        draw_curve_(canvas, curve, looks[key_of(curve)], band_strength=band_strength(len(panel.curves)))
    if not panel.curves:
        canvas.set_xticks([])
        canvas.text(0.5, 0.5, "no finished runs yet", color=MUTED, transform=canvas.transAxes, ha="center", va="center")


def frame_(canvas: Canvas, panel: Panel, axes: Axes) -> None:
    """Titles, ranges, ticks and a quiet grid."""
    canvas.set_title(panel.title, loc="left", fontsize=10.5, fontweight="bold", pad=10)
    canvas.set_xlabel(panel.x_label, labelpad=6)
    canvas.set_ylabel(panel.y_label, labelpad=6)
    low, high = axes.x_range
    canvas.set_xlim(low - 0.015 * (high - low), high + 0.015 * (high - low))
    canvas.set_ylim(*axes.y_range)
    canvas.set_xticks(axes.x_ticks(8), labels=[f"{tick:g}" for tick in axes.x_ticks(8)])
    canvas.set_yticks(axes.y_ticks(6), labels=[f"{tick:g}" for tick in axes.y_ticks(6)])
    canvas.grid(axis="y", color=RULE, linewidth=0.7)
    canvas.set_axisbelow(True)
    canvas.tick_params(length=0, pad=5)
    canvas.spines[["top", "right", "left"]].set_visible(False)


def draw_level_(canvas: Canvas, level: Level, *, side: str) -> None:
    """A thin line to read curves against, with its name where there is room."""
    canvas.axhline(level.value, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)), zorder=1.5, gid="level")
    x, align = (0.0, "left") if side == "left" else (1.0, "right")
    canvas.annotate(
        level.label,
        (x, level.value),
        xycoords=("axes fraction", "data"),
        xytext=(4 if side == "left" else -4, 3),
        textcoords="offset points",
        ha=align,
        va="bottom",
        fontsize=8,
        color=MUTED,
    )


def band_strength(num_curves: int) -> float:
    """How opaque a band is."""
    return 0.16 if num_curves <= MAX_STRONG_BANDS else 0.07


def draw_curve_(canvas: Canvas, curve: Curve, look: Look, *, band_strength: float) -> None:
    """A line with markers over its band."""
    order = 4 if look.stands_out else 3
    if len(curve.values) > 1:
        band = canvas.fill_between(curve.x, curve.low, curve.high, color=look.light, alpha=band_strength, linewidth=0)
        band.set(zorder=order - 1, gid="band")
    line = line_of(look, label=curve.label)
    line.set_data(curve.x, curve.mean)
    line.set(zorder=order, gid="curve", markevery=marked_positions(len(curve.x)))
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


def marked_positions(number: int) -> list[int]:
    """Evenly spread positions that carry a marker, first and last among them."""
    return np.unique(np.linspace(0, number - 1, min(number, NUM_MARKERS)).round().astype(int)).tolist()


def label_ends_(canvas: Canvas, panel: Panel, looks: dict[Key, Look]) -> None:
    """Each curve's name at its right end, moved apart where ends meet."""
    ends = [last_point(curve) for curve in panel.curves]
    low, high = axes_of(panel).y_range
    heights = spread([(y - low) / (high - low) for _, y in ends], LABEL_GAP)
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


def last_point(curve: Curve) -> tuple[float, float]:
    """Where the line ends; (0, 0) for one without a finite value."""
    drawn = np.flatnonzero(np.isfinite(curve.mean))
    return (float(curve.x[drawn[-1]]), float(curve.mean[drawn[-1]])) if len(drawn) else (0.0, 0.0)


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


def add_legend_(drawn: Picture, looks: dict[Key, Look], num_columns: int) -> None:
    """One legend for all panels, below them."""
    lines: list[Artist] = [line_of(look, label=label) for (_, label), look in looks.items()]
    if lines:
        drawn.legend(handles=lines, loc="outside lower center", ncols=num_columns, frameon=False, handlelength=3.2)


def _entries_in_a_row(num_columns: int) -> int:
    return {1: 4, 2: 5}.get(num_columns, 6)
