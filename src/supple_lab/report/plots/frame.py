"""Frame: what all panels of a picture share: fonts, titles, axes, levels."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes as Canvas
from matplotlib.patheffects import withStroke

from supple_lab.report.axes import Axes, calmest_end
from supple_lab.report.panel import AnyPanel, Level, Line
from supple_lab.report.scale import backward, forward

INK, MUTED, RULE = "#1c2024", "#5f6872", "#e3e6e9"
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
MAX_LEVEL_X_NAMES = 6  # more names along the axis are set aslant


def title_(canvas: Canvas, panel: AnyPanel) -> None:
    """The panel's title and the names of its axes."""
    canvas.set_title(panel.title, loc="left", fontsize=10.5, fontweight="bold", pad=10)
    canvas.set_xlabel(panel.x_label, labelpad=6)
    canvas.set_ylabel(panel.y_label, labelpad=6)
    canvas.tick_params(length=0, pad=5)


def frame_(canvas: Canvas, panel: AnyPanel, axes: Axes) -> None:
    """Title, ranges, ticks and a quiet grid."""
    title_(canvas, panel)
    scale_(canvas, axes)
    x_ticks, y_ticks = axes.x_ticks(8), axes.y_ticks(6)
    aslant = {"rotation": 30, "ha": "right"} if len(axes.positions) > MAX_LEVEL_X_NAMES else {}
    canvas.set_xticks([at for at, _ in x_ticks], labels=[label for _, label in x_ticks], minor=False, **aslant)
    canvas.set_yticks([at for at, _ in y_ticks], labels=[label for _, label in y_ticks], minor=False)
    canvas.minorticks_off()
    canvas.grid(axis="y", color=RULE, linewidth=0.7)
    canvas.set_axisbelow(True)
    canvas.spines[["top", "right", "left"]].set_visible(False)


def scale_(canvas: Canvas, axes: Axes) -> None:
    """Scales and ranges, by the same functions as the page's."""
    for set_scale, scale in ((canvas.set_xscale, axes.x_scale), (canvas.set_yscale, axes.y_scale)):
        if scale != "linear":
            pair = (lambda v, s=scale: forward(v, s), lambda v, s=scale: backward(v, s))
            set_scale("function", functions=pair)
    slack = 0.0 if axes.positions else 0.015
    low, high = forward(np.array(axes.x_range), axes.x_scale)
    ends = np.array([low - slack * (high - low), high + slack * (high - low)])
    canvas.set_xlim(*backward(ends, axes.x_scale))
    canvas.set_ylim(*axes.y_range)


def draw_levels_(canvas: Canvas, levels: tuple[Level, ...], lines: tuple[Line, ...], *, order: float = 1.5) -> None:
    """Thin lines to read curves against, each with its name where there is room."""
    for level in levels:
        side = calmest_end(lines, level.value)
        canvas.axhline(level.value, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)), zorder=order, gid="level")
        canvas.annotate(
            level.label,
            (0.0 if side == "left" else 1.0, level.value),
            xycoords=("axes fraction", "data"),
            xytext=(4 if side == "left" else -4, 3),
            textcoords="offset points",
            ha=side,
            va="bottom",
            fontsize=8,
            color=MUTED,
            zorder=6,
            path_effects=[withStroke(linewidth=2.0, foreground="white")],
        )


def say_nothing_(canvas: Canvas, panel: AnyPanel) -> None:
    """A panel that has nothing to show says so."""
    canvas.set_xticks([])
    canvas.text(0.5, 0.5, panel.nothing, color=MUTED, transform=canvas.transAxes, ha="center", va="center")
