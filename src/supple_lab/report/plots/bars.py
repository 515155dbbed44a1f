"""Bars of a picture, with error bars."""

from typing import Any

from matplotlib.axes import Axes as Canvas
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke

from supple_lab.report.axes import axes_of
from supple_lab.report.colours import Look
from supple_lab.report.legend import Key, key_of
from supple_lab.report.panel import Bars
from supple_lab.report.plots.frame import INK, MUTED, draw_levels_, frame_, say_nothing_
from supple_lab.report.slots import bar_slots


def draw_bars_(canvas: Canvas, panel: Bars, looks: dict[Key, Look]) -> None:
    """Axes, levels, bars and their error bars; a method's second set of bars is paler and hatched."""
    frame_(canvas, panel, axes_of(panel))
    draw_levels_(canvas, panel.levels, panel.bars, order=5)
    for line, place, slot in bar_slots(panel):
        corner = (slot.centre - slot.width / 2, 0.0)
        bar = Rectangle(corner, slot.width, float(line.middle[place]), **fill_of(looks[key_of(line)]))
        bar.set(zorder=3, gid="bar")
        canvas.add_patch(bar)
        if line.has_band:
            reach = canvas.vlines(slot.centre, line.low[place], line.high[place], color=INK, linewidth=1.1)
            reach.set(zorder=4, gid="band", path_effects=[withStroke(linewidth=2.6, foreground="white")])
    canvas.axhline(0.0, color=MUTED, linewidth=0.7, zorder=3.5)
    if not panel.bars:
        say_nothing_(canvas, panel)


def fill_of(look: Look) -> dict[str, Any]:
    """How a bar of that look is filled."""
    hatch = "///" if look.fill < 1.0 else None
    return {"facecolor": (look.light, look.fill), "edgecolor": look.light, "linewidth": 0.8, "hatch": hatch}


def patch_of(look: Look, *, label: str) -> Patch:
    """An entry in the legend."""
    return Patch(label=label, **fill_of(look))
