"""Distributions of a picture: histograms on their sides, with the three quartiles drawn across."""

from matplotlib.axes import Axes as Canvas

from supple_lab.report.axes import axes_of
from supple_lab.report.colours import Look
from supple_lab.report.legend import Key, key_of
from supple_lab.report.panel import Distribution
from supple_lab.report.plots.frame import INK, draw_levels_, frame_, say_nothing_
from supple_lab.report.slots import Violin, violins


def draw_distribution_(canvas: Canvas, panel: Distribution, looks: dict[Key, Look]) -> None:
    """Axes, levels and outlines."""
    frame_(canvas, panel, axes_of(panel))
    draw_levels_(canvas, panel.levels, ())
    for violin in violins(panel):
        draw_violin_(canvas, violin, looks[key_of(violin.histogram)])
    if not panel.histograms:
        say_nothing_(canvas, panel)


def draw_violin_(canvas: Canvas, violin: Violin, look: Look) -> None:
    """The outline, a long line at the median and shorter ones at the other quartiles."""
    left, right = violin.centre - violin.half_widths, violin.centre + violin.half_widths
    body = canvas.fill_betweenx(violin.heights, left, right, facecolor=(look.light, 0.45), edgecolor=look.light)
    body.set(linewidth=0.8, zorder=3, gid="violin")
    for quartile, width in zip(violin.histogram.quartiles, (1.0, 2.2, 1.0), strict=True):
        half = violin.half_width_at(quartile)
        line = canvas.hlines(quartile, violin.centre - half, violin.centre + half, color=INK, linewidth=width)
        line.set(zorder=4, gid="quartile")
