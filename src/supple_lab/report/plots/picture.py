"""Picture: a figure as PNG and PDF, its panels in a grid over one legend."""

import io
import math
from collections.abc import Callable
from typing import Any

from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Picture
from matplotlib.layout_engine import ConstrainedLayoutEngine

from supple_lab.report.colours import Look
from supple_lab.report.figure import Figure
from supple_lab.report.legend import Key, legend_of
from supple_lab.report.panel import Bars, Distribution, HeatMap, Panel
from supple_lab.report.plots.bars import draw_bars_, patch_of
from supple_lab.report.plots.curves import draw_curves_, label_ends_, line_of
from supple_lab.report.plots.distribution import draw_distribution_
from supple_lab.report.plots.frame import STYLE
from supple_lab.report.plots.heat_map import draw_heat_map_

DRAW: dict[type, Callable[..., None]] = {
    Panel: draw_curves_,
    Bars: draw_bars_,
    Distribution: draw_distribution_,
    HeatMap: draw_heat_map_,
}
DOTS_PER_INCH = 200
THUMBNAIL_WIDTH = 480  # dots: twice what an overview shows
THUMBNAIL_SIZE = (4.5, 2.5)  # inches, which decide how large its letters are
SINGLE_SIZE = (7.2, 4.0)  # inches: 1,440 x 800 dots, about twice what a README column shows
PANEL_SIZE = (3.9, 3.1)
LEGEND_ROW = 0.27  # inches
LEGEND_HANDLE, LEGEND_LETTER = 0.65, 0.08  # inches that a line with its gaps takes, and a letter of its name
MAX_DIRECT_LABELS = 6  # more names at the line ends are slower to read than a legend


def picture_files(figure: Figure) -> dict[str, bytes]:
    """The figure as PNG and PDF files, by their endings; equal figures give equal bytes."""
    with rc_context(STYLE):
        drawn = picture(figure)
        return {
            "png": _saved(drawn, "png", metadata={"Software": None}),
            "pdf": _saved(drawn, "pdf", metadata={"CreationDate": None}),
        }


def thumbnail(figure: Figure) -> bytes:
    """The figure's first panel as a small PNG, in letters that can be read there: no legend, colours say enough."""
    with rc_context(STYLE):
        drawn = Picture(figsize=THUMBNAIL_SIZE, layout=roomy_layout())
        FigureCanvasAgg(drawn)
        for panel in figure.panels[:1]:
            DRAW[type(panel)](drawn.add_subplot(), panel, legend_of(figure))
        return _saved(drawn, "png", dpi=THUMBNAIL_WIDTH / drawn.get_figwidth(), metadata={"Software": None})


def _saved(drawn: Picture, kind: str, *, metadata: dict[str, None], dpi: float = DOTS_PER_INCH) -> bytes:
    file = io.BytesIO()
    drawn.savefig(file, format=kind, dpi=dpi, metadata=metadata)
    drawn.set_layout_engine("none")  # laid out by the first save; the second would spend a second on the same answer
    return file.getvalue()


def picture(figure: Figure) -> Picture:
    """The figure drawn, without any global state of matplotlib."""
    looks = legend_of(figure)
    num_columns = max(1, min(len(figure.panels), figure.columns))
    num_rows = max(1, math.ceil(len(figure.panels) / num_columns))
    direct = is_labelled_directly(figure, looks)
    width, height = SINGLE_SIZE if len(figure.panels) < 2 else (num_columns * PANEL_SIZE[0], num_rows * PANEL_SIZE[1])
    entries = entries_in_a_row(looks, width)
    legend_height = 0.0 if direct else LEGEND_ROW * math.ceil(len(looks) / entries)
    drawn = Picture(figsize=(width, height + legend_height), layout=roomy_layout())
    FigureCanvasAgg(drawn)
    for place, panel in enumerate(figure.panels, start=1):
        canvas = drawn.add_subplot(num_rows, num_columns, place)
        DRAW[type(panel)](canvas, panel, looks)
        if direct and isinstance(panel, Panel):
            label_ends_(canvas, panel, looks)
    if not direct:
        add_legend_(drawn, figure, looks, num_columns=entries)
    return drawn


def roomy_layout() -> Any:
    """Panels that keep their distance from each other and from the edges."""
    return ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1, hspace=0.04)


def is_labelled_directly(figure: Figure, looks: dict[Key, Look]) -> bool:
    """Whether names stand at the ends of the curves, and no legend is needed."""
    curves = all(isinstance(panel, Panel) and not any(curve.dots for curve in panel.curves) for panel in figure.panels)
    return curves and len(figure.panels) <= 1 and len(looks) <= MAX_DIRECT_LABELS


def add_legend_(drawn: Picture, figure: Figure, looks: dict[Key, Look], *, num_columns: int) -> None:
    """One legend for all panels, below them: lines, or patches where there are no lines."""
    handle = line_of if any(isinstance(panel, Panel) for panel in figure.panels) else patch_of
    handles: list[Artist] = [handle(look, label=label) for (_, label), look in looks.items()]
    if handles:
        drawn.legend(handles=handles, loc="outside lower center", ncols=num_columns, frameon=False, handlelength=3.2)


def entries_in_a_row(looks: dict[Key, Look], width: float) -> int:
    """As many names as fit side by side, or as few as need no more rows; at least one."""
    longest = max((len(label) for _, label in looks), default=1)
    fitting = max(1, math.floor(width / (LEGEND_HANDLE + LEGEND_LETTER * longest)))
    num_rows = max(1, math.ceil(len(looks) / fitting))
    return max(1, math.ceil(len(looks) / num_rows))
