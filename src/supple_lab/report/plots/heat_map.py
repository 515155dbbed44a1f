"""Heat maps of a picture: a number in each cell, the deviation smaller under it, the reference on the colour bar."""

from typing import Any

from matplotlib.axes import Axes as Canvas
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle

from supple_lab.report.colours import Look
from supple_lab.report.legend import Key
from supple_lab.report.panel import HeatMap
from supple_lab.report.plots.frame import MUTED, RULE, say_nothing_, title_
from supple_lab.report.shades import MAP, MARK, Cell, cells, shade_range

MAX_LARGE_COLUMNS = 5  # more leave room for small print only


def draw_heat_map_(canvas: Canvas, panel: HeatMap, looks: dict[Key, Look]) -> None:
    """The cells, their names along the edges, and the colour bar."""
    title_(canvas, panel)
    canvas.spines[:].set_visible(False)
    num_rows, num_columns = panel.values.shape
    canvas.set_xlim(-0.5, max(num_columns, 1) - 0.5)
    canvas.set_ylim(max(num_rows, 1) - 0.5, -0.5)
    canvas.set_xticks(range(num_columns), labels=panel.columns)
    canvas.set_yticks(range(num_rows), labels=panel.rows)
    for cell in cells(panel):
        draw_cell_(canvas, cell, size=8.0 if num_columns <= MAX_LARGE_COLUMNS else 6.5)
    if not panel.values.size:
        return say_nothing_(canvas, panel)
    return colour_bar_(canvas, panel)


def draw_cell_(canvas: Canvas, cell: Cell, *, size: float) -> None:
    """A coloured square with its text."""
    corner = (cell.column - 0.5, cell.row - 0.5)
    square = Rectangle(corner, 1.0, 1.0, facecolor=cell.shade or RULE, edgecolor="white", linewidth=1.0, gid="cell")
    canvas.add_patch(square)
    words: Any = {"color": cell.ink, "ha": "center", "va": "center"}
    weight = "bold" if cell.bold else "normal"
    lift = 0.13 if cell.deviation else 0.0
    canvas.text(cell.column, cell.row - lift, cell.value, fontsize=size, fontweight=weight, **words)
    if cell.deviation:
        canvas.text(cell.column, cell.row + 0.2, cell.deviation, fontsize=0.75 * size, **words)


def colour_bar_(canvas: Canvas, panel: HeatMap) -> None:
    """The colours from the lowest to the highest value, and the reference across them."""
    colours = ScalarMappable(Normalize(*shade_range(panel)), MAP)
    bar = canvas.figure.colorbar(colours, ax=canvas, fraction=0.06, pad=0.03, label=panel.value_label)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, pad=4, labelsize=8)
    if panel.reference is not None:
        for colour, width in (("white", 4.5), (MARK, 2.4)):
            bar.ax.axhline(panel.reference.value, color=colour, linewidth=width, gid="reference")
        said = f"{panel.reference.label} {panel.reference.value:.{panel.decimals}f}"
        bar.ax.set_title(said, fontsize=8, color=MUTED, loc="right", pad=4)
