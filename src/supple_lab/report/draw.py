"""Figures as pictures: matplotlib draws each panel."""

import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes as Canvas
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, to_hex
from matplotlib.figure import Figure as Picture
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke

from supple_lab.report.axes import Axes, axes_of, calmest_end, from_zero, span
from supple_lab.report.colours import Look, Marker
from supple_lab.report.figure import (
    AnyPanel,
    Bars,
    Distribution,
    Figure,
    HeatMap,
    Histogram,
    Key,
    Level,
    Line,
    Panel,
    Range,
    band_strength,
    key_of,
    legend_of,
    marked_positions,
)
from supple_lab.report.scale import backward, forward

MAP = "cividis"
DARK_INK, LIGHT_INK = "#000000", "#ffffff"
HALF_WAY = 0.179  # the luminance at which both inks have the same contrast, 4.58 to 1 (WCAG 2.1)
MARK = "#e8212c"  # the reference on the colour bar, red as in the paper, edged in white


@dataclass(frozen=True)
class Cell:
    """One cell: its text, its colour, and the ink that is read on it."""

    row: int
    column: int
    value: str
    deviation: str
    shade: str | None  # None for an empty cell
    ink: str
    bold: bool


def shade_range(panel: HeatMap) -> Range:
    """What the colour bar goes from and to; the reference is on it."""
    reference = np.array([panel.reference.value] if panel.reference else [])
    return from_zero(span([panel.values.ravel(), reference]), "linear")


def cells(panel: HeatMap) -> list[Cell]:
    """All cells, row after row."""
    low, high = shade_range(panel)
    return [
        _cell(panel, place, (float(panel.values[place]) - low) / (high - low))
        for place in np.ndindex(panel.values.shape)
    ]


def _cell(panel: HeatMap, place: tuple[int, ...], share: float) -> Cell:
    value, row, column = float(panel.values[place]), place[0], place[1]
    if not np.isfinite(value):
        return Cell(row, column, "\N{EN DASH}", "", None, DARK_INK, False)
    above = panel.reference is not None and value > panel.reference.value
    deviation = float(panel.deviations[place])
    return Cell(
        row,
        column,
        f"{value:.{panel.decimals}f}".replace("-", "\N{MINUS SIGN}"),
        f"± {deviation:.{panel.decimals}f}" if np.isfinite(deviation) else "",
        shade(share),
        DARK_INK if lightness(share) > HALF_WAY else LIGHT_INK,
        above,
    )


def shade(share: float) -> str:
    """The colour that far along the map."""
    return to_hex(colormaps[MAP](share))


def lightness(share: float) -> float:
    """Relative luminance of that colour (WCAG 2.1), 0 for black and 1 for white."""
    colour = np.array(colormaps[MAP](share)[:3])
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


SHARE_OF_POSITION = 0.8  # that the group at a position takes; the rest keeps groups apart
SHARE_OF_SLOT = 0.9  # that a bar or the widest bin takes of its slot


@dataclass(frozen=True)
class Slot:
    """A place along the horizontal axis, in positions."""

    centre: float
    width: float


def slot(position: float, place: int, number: int) -> Slot:
    """The place-th of so many slots at a position."""
    width = SHARE_OF_POSITION / max(1, number)
    return Slot(position + (place - (number - 1) / 2) * width, width * SHARE_OF_SLOT)


def bar_slots(panel: Bars) -> list[tuple[Line, int, Slot]]:
    """Each bar with a height: its line, the place in that line, and where it stands."""
    return [
        (line, i, slot(float(line.x[i]), place, len(panel.bars)))
        for place, line in enumerate(panel.bars)
        for i in range(len(line.x))
        if np.isfinite(line.middle[i])
    ]


@dataclass(frozen=True)
class Violin:
    """A histogram on its side, mirrored: the outline's heights and half widths, and where it stands."""

    histogram: Histogram
    centre: float
    heights: np.ndarray  # (2 * bins,)
    half_widths: np.ndarray  # (2 * bins,), in positions

    def half_width_at(self, height: float) -> float:
        """How far the outline is from its middle at that height; a little where there is no bin."""
        bins = np.searchsorted(self.histogram.edges, height, side="right") - 1
        inside = 0 <= bins < len(self.histogram.shares)
        return max(float(self.half_widths[2 * bins]) if inside else 0.0, 0.1 * float(self.half_widths.max(initial=0.0)))


def violins(panel: Distribution) -> list[Violin]:
    """Every histogram's outline; a bin's width is its density on the scale of the axis, the densest one's is full."""
    keys = list(dict.fromkeys(key_of(histogram) for histogram in panel.histograms))
    outlines = []
    for histogram in panel.histograms:
        place = slot(panel.positions.index(histogram.position), keys.index(key_of(histogram)), len(keys))
        density = histogram.shares / np.diff(forward(histogram.edges, panel.y_scale))
        half = place.width / 2 * density / max(density.max(initial=0.0), 1e-300)
        outlines.append(Violin(histogram, place.centre, np.repeat(histogram.edges, 2)[1:-1], np.repeat(half, 2)))
    return outlines


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
