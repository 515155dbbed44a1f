"""Panels drawn by matplotlib, the one renderer of pictures and pages."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes as Canvas
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, to_hex
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator, SymmetricalLogLocator

from supple_lab.report.colours import MARKERS, Look, Marker
from supple_lab.report.figure import (
    AnyPanel,
    Bars,
    Distribution,
    HeatMap,
    Histogram,
    Key,
    Level,
    Line,
    Panel,
    Range,
    Scale,
    key_of,
)
from supple_lab.report.tables import ABSENT, minus

Looks = dict[Key, Look]
INK, MUTED, RULE = "#1c2024", "#5f6872", "#e3e6e9"
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that all machines draw the same picture
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "text.parse_math": False,  # a dollar sign in a label is a dollar sign
    "pdf.fonttype": 42,  # text stays text: it can be searched and edited
    "svg.fonttype": "none",
}
SHAPES: dict[Marker, str] = dict(zip(MARKERS, "os^vDPX*<>", strict=True))
SIZES: dict[Marker, float] = {"star": 8.0, "plus": 6.2, "cross": 6.2, "up": 5.4, "down": 5.4, "left": 5.4, "right": 5.4}
MARGIN = 0.05  # of the data's own range, above and below
EDGE = 0.015  # at the sides of curves and above a given range: half a line
NUM_MARKERS = 9  # a curve's markers are a key to the legend, not its data points
MAX_STRONG_BANDS = 6  # more of them at full strength cover the lines
MAX_LEVEL_X_NAMES, MAX_LEVEL_LETTERS = 6, 40  # more along the axis are set aslant
MAX_FLAT_X_NAMES = 8  # more are set steeper
SHARE_OF_POSITION = 0.8  # that the group at a position takes; the rest keeps groups apart
SHARE_OF_SLOT = 0.9  # that a bar or the widest bin takes of its slot


def draw_(canvas: Canvas, panel: AnyPanel, looks: Looks) -> None:
    """Draw the panel without its title and the names of its axes."""
    canvas.tick_params(left=False, bottom=False, pad=5)
    if isinstance(panel, HeatMap):
        _draw_cells_(canvas, panel)
    elif isinstance(panel, Distribution):
        _draw_violins_(canvas, panel, looks)
    elif isinstance(panel, Bars):
        _draw_bars_(canvas, panel, looks)
    else:
        _draw_curves_(canvas, panel, looks)
    if panel.is_empty:
        canvas.set_xticks([])
        middle: Any = {"transform": canvas.transAxes, "ha": "center", "va": "center"}
        canvas.text(0.5, 0.5, panel.nothing, color=MUTED, fontsize=11, **middle)


def _frame_(canvas: Canvas, panel: Panel | Bars | Distribution) -> None:
    """Ranges that hold all that is drawn, round ticks and a quiet grid."""
    scale: Scale = "linear" if isinstance(panel, Bars) else panel.y_scale
    canvas.set_yscale("asinh" if scale == "symlog" else scale)  # linear around zero and logarithmic far from it
    canvas.margins(x=EDGE, y=MARGIN)
    canvas.autoscale_view()
    low, high = canvas.dataLim.intervaly
    if low and math.isclose(low, high):
        canvas.set_ylim(*sorted((0.0, 2 * low)))  # half way up from zero: an accuracy's axis stays above it
    given = panel.y_range or ((0.0, 1.0) if panel.is_empty and scale == "linear" else None)
    if given:
        low, high = given
        canvas.set_ylim(low, high + EDGE * (high - low))
    if isinstance(panel, Panel):
        _set_x_ticks_(canvas, panel)
    else:
        canvas.set_xlim(-0.5, max(len(panel.positions), 1) - 0.5)
        steepness = 30 if len(panel.positions) <= MAX_FLAT_X_NAMES else 55
        aslant = {"rotation": steepness, "ha": "right", "rotation_mode": "anchor"}
        is_long = len(panel.positions) > MAX_LEVEL_X_NAMES or sum(map(len, panel.positions)) > MAX_LEVEL_LETTERS
        named: Any = aslant if is_long else {}
        canvas.set_xticks(range(len(panel.positions)), labels=panel.positions, **named)
    if scale == "linear" or max(map(abs, canvas.get_ylim())) < 10:
        canvas.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    else:
        locator = SymmetricalLogLocator(base=10, linthresh=1.0)
        locator.set_params(numticks=6)
        canvas.yaxis.set_major_locator(locator)
    for axis in (canvas.yaxis, *([canvas.xaxis] if isinstance(panel, Panel) else [])):
        axis.set_major_formatter(lambda value, _: minus(f"{value:g}"))
    canvas.minorticks_off()
    canvas.grid(axis="y", color=RULE, linewidth=0.7)
    canvas.set_axisbelow(True)
    canvas.spines[["top", "right", "left"]].set_visible(False)


def _set_x_ticks_(canvas: Canvas, panel: Panel) -> None:
    """Mark round numbers, and the first position if there is room: stages are counted from 1."""
    low, high = canvas.dataLim.intervalx
    if not panel.curves or not math.isfinite(high - low):
        return
    if low == high:
        canvas.set_xlim(low - 0.5, low + 0.5)
    number = int(np.clip(_width(canvas) / 28, 3, 8))
    counted = all(np.equal(np.mod(curve.x, 1.0), 0.0).all() for curve in panel.curves)
    locator = MaxNLocator(number, integer=counted or high - low >= number, steps=[1, 2, 5, 10], min_n_ticks=1)
    ticks = [tick for tick in locator.tick_values(low, high) if low - 1e-9 <= tick <= high + 1e-9]
    crowded = bool(ticks) and ticks[0] - low < (ticks[1] - ticks[0] if len(ticks) > 1 else 1.0) / 2
    canvas.set_xticks(ticks if crowded or not float(low).is_integer() else [low, *ticks])


def _width(canvas: Canvas) -> float:
    """The width in points before the layout, which changes it little."""
    return float(canvas.bbox.width * 72 / canvas.figure.dpi)


def _draw_levels_(canvas: Canvas, levels: tuple[Level, ...], lines: tuple[Line, ...], *, order: float = 1.5) -> None:
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
            color=MUTED,
            zorder=6,
            gid="level-name",
            path_effects=[withStroke(linewidth=2.0, foreground="white")],
        )


def calmest_end(curves: tuple[Line, ...], value: float) -> str:
    """'left' or 'right': the end of a horizontal line at the value where the curves leave most room for a word."""
    drawn = [curve.middle for curve in curves if len(curve.x)]
    left, right = (min((abs(float(line[end]) - value) for line in drawn), default=0.0) for end in (0, -1))
    return "left" if left >= right else "right"


def _draw_curves_(canvas: Canvas, panel: Panel, looks: Looks) -> None:
    _draw_levels_(canvas, panel.levels, panel.curves)
    strength = 0.16 if len(panel.curves) <= MAX_STRONG_BANDS else 0.07
    for curve in panel.curves:
        look, entry = looks[key_of(curve)], list(looks).index(key_of(curve))
        order = 4 if look.stands_out else 3
        if curve.has_band:
            band = canvas.fill_between(curve.x, curve.low, curve.high, color=look.light, alpha=strength, linewidth=0)
            band.set(zorder=order - 1, gid=f"band-{entry}")
        line = line_of(look, label=curve.label)
        line.set_data(curve.x, curve.middle)
        number = len(curve.x)  # first and last carry a marker
        marked = np.unique(np.linspace(0, number - 1, min(number, NUM_MARKERS)).round().astype(int)).tolist()
        line.set(zorder=order, gid=f"curve-{entry}", markevery=marked)
        canvas.add_line(line)
    _frame_(canvas, panel)


def line_of(look: Look, *, label: str) -> Line2D:
    """Return an empty line of that look, for a curve or its entry in the legend."""
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


def _slot(position: float, place: int, number: int) -> tuple[float, float]:
    """The centre and the width of the place-th of so many slots at a position."""
    width = SHARE_OF_POSITION / max(1, number)
    return position + (place - (number - 1) / 2) * width, width * SHARE_OF_SLOT


def _draw_bars_(canvas: Canvas, panel: Bars, looks: Looks) -> None:
    """Draw bars and their error bars; a method's second set of bars is paler and hatched."""
    _draw_levels_(canvas, panel.levels, panel.bars, order=5)
    for place, line in enumerate(panel.bars):
        look, entry = looks[key_of(line)], list(looks).index(key_of(line))
        for i in np.flatnonzero(np.isfinite(line.middle)):
            centre, width = _slot(float(line.x[i]), place, len(panel.bars))
            bar = Rectangle((centre - width / 2, 0.0), width, float(line.middle[i]), **fill_of(look))
            bar.set(zorder=3, gid=f"bar-{entry}")
            bar.sticky_edges.y.append(0.0)
            canvas.add_patch(bar)
            if line.has_band:
                reach = canvas.vlines(centre, line.low[i], line.high[i], color=INK, linewidth=1.1)
                halo = withStroke(linewidth=2.6, foreground="white")
                reach.set(zorder=4, gid=f"band-{entry}", path_effects=[halo])
    zero = canvas.axhline(0.0, color=MUTED, linewidth=0.9, zorder=3.5)
    zero.sticky_edges.y.append(0.0)
    _frame_(canvas, panel)
    canvas.spines["bottom"].set_visible(False)


def fill_of(look: Look) -> dict[str, Any]:
    hatch = "///" if look.fill < 1.0 else None
    return {"facecolor": (look.light, look.fill), "edgecolor": look.light, "linewidth": 0.8, "hatch": hatch}


@dataclass(frozen=True)
class Violin:
    """A histogram on its side, mirrored: the outline's heights and half widths, and where it stands."""

    histogram: Histogram
    centre: float
    heights: np.ndarray  # (2 * bins,), from the first bin that holds anything to the last
    half_widths: np.ndarray  # (2 * bins,), in positions

    def half_width_at(self, height: float) -> float:
        """How far the outline is from its middle at that height; a little if there is no bin."""
        inside = (self.heights[::2] <= height) & (height < self.heights[1::2])
        return float(max([*self.half_widths[::2][inside], 0.1 * self.half_widths.max(initial=0.0)]))


FORWARD: dict[Scale, Callable[[np.ndarray], np.ndarray]] = {"linear": np.asarray, "symlog": np.arcsinh}


def violins(panel: Distribution) -> list[Violin]:
    """Every histogram's outline; a bin's width is its density on the scale of the axis, the densest one's is full."""
    keys = list(dict.fromkeys(key_of(histogram) for histogram in panel.histograms))
    outlines = []
    for histogram in panel.histograms:
        position = panel.positions.index(histogram.position)
        centre, width = _slot(position, keys.index(key_of(histogram)), len(keys))
        density = histogram.shares / np.diff(FORWARD[panel.y_scale](histogram.edges))
        half = width / 2 * density / max(density.max(initial=0.0), 1e-300)
        full = np.flatnonzero(histogram.shares > 0)
        reach = slice(2 * full[0], 2 * full[-1] + 2) if len(full) else slice(0, 0)
        heights = np.repeat(histogram.edges, 2)[1:-1]
        outlines.append(Violin(histogram, centre, heights[reach], np.repeat(half, 2)[reach]))
    return outlines


def _draw_violins_(canvas: Canvas, panel: Distribution, looks: Looks) -> None:
    """Draw outlines, with a long line at the median and shorter ones at the other quartiles."""
    _draw_levels_(canvas, panel.levels, ())
    for violin in violins(panel):
        key = key_of(violin.histogram)
        light, entry = looks[key].light, list(looks).index(key)
        left, right = violin.centre - violin.half_widths, violin.centre + violin.half_widths
        body = canvas.fill_betweenx(violin.heights, left, right, facecolor=(light, 0.45), edgecolor=light)
        body.set(linewidth=0.8, zorder=3, gid=f"violin-{entry}")
        for quartile, width in zip(violin.histogram.quartiles, (1.0, 2.2, 1.0), strict=True):
            half = violin.half_width_at(quartile)
            line = canvas.hlines(quartile, violin.centre - half, violin.centre + half, color=INK, linewidth=width)
            line.set(zorder=4, gid=f"quartile-{entry}")
    _frame_(canvas, panel)


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
    """Return the ends of the colour bar; the reference lies on it."""
    numbers = np.append(panel.values, [panel.reference.value] if panel.reference else [])
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return 0.0, 1.0
    low, high = float(numbers.min()), float(numbers.max())
    if low < high:
        return low, high
    return (-0.5, 0.5) if not low else (min(0.0, 2 * low), max(0.0, 2 * low))


def cells(panel: HeatMap) -> list[Cell]:
    low, high = shade_range(panel)
    found = []
    for row, column in np.ndindex(panel.values.shape):
        value, deviation = float(panel.values[row, column]), float(panel.deviations[row, column])
        if not np.isfinite(value):
            found.append(Cell(row, column, ABSENT, "", None, MUTED, False))
            continue
        share = (value - low) / (high - low)
        spread = f"± {deviation:.{panel.decimals}f}" if np.isfinite(deviation) else ""
        ink = DARK_INK if lightness(share) > HALF_WAY else LIGHT_INK
        above = panel.reference is not None and value > panel.reference.value
        text = minus(f"{value:.{panel.decimals}f}")
        found.append(Cell(row, column, text, spread, to_hex(colormaps[MAP](share)), ink, above))
    return found


def lightness(share: float) -> float:
    """Relative luminance of the colour that far along the map (WCAG 2.1), 0 for black and 1 for white."""
    colour = np.array(colormaps[MAP](share)[:3])
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def _draw_cells_(canvas: Canvas, panel: HeatMap) -> None:
    """Draw coloured squares with their numbers, their names along the edges, and the colour bar below."""
    canvas.spines[:].set_visible(False)
    num_rows, num_columns = panel.values.shape
    canvas.set_xlim(-0.5, max(num_columns, 1) - 0.5)
    canvas.set_ylim(max(num_rows, 1) - 0.5, -0.5)
    canvas.set_xticks(range(num_columns), labels=panel.columns)
    canvas.set_yticks(range(num_rows), labels=panel.rows)
    canvas.set_xlabel(panel.x_label, loc="right", labelpad=4, color=MUTED)
    size = min(9.0, 0.28 * _width(canvas) / max(num_columns, 1))
    for place, cell in enumerate(cells(panel)):
        corner = (cell.column - 0.5, cell.row - 0.5)
        options: Any = {"facecolor": cell.shade or RULE, "edgecolor": "white", "linewidth": 1.0, "gid": f"cell-{place}"}
        canvas.add_patch(Rectangle(corner, 1.0, 1.0, **options))
        words: Any = {"xy": (cell.column, cell.row), "textcoords": "offset points", "color": cell.ink, "ha": "center"}
        lift, weight = (0.0 if cell.deviation else -0.35 * size), "bold" if cell.bold else "normal"
        canvas.annotate(cell.value, xytext=(0, lift), fontsize=size, fontweight=weight, **words)
        canvas.annotate(cell.deviation, xytext=(0, -1.1 * size), fontsize=0.8 * size, **words)
    if not panel.is_empty:
        _draw_colour_bar_(canvas, panel)


def _draw_colour_bar_(canvas: Canvas, panel: HeatMap) -> None:
    """Draw the colours from the lowest to the highest value, and the reference across them."""
    ends = shade_range(panel)
    colours = ScalarMappable(Normalize(*ends), MAP)
    aspect = _width(canvas) / 7.0
    bar = canvas.figure.colorbar(colours, ax=canvas, location="bottom", aspect=aspect, fraction=0.07, pad=0.02)
    bar.outline.set_visible(False)
    for mesh in bar.ax.collections:
        mesh.set_rasterized(True)  # or it is hundreds of rectangles
    bar.ax.set_xticks([])
    beside: Any = {"xycoords": "axes fraction", "textcoords": "offset points"}
    low, high = (minus(f"{end:.{panel.decimals}f}") for end in ends)
    for text, share, side in ((low, 0.0, "left"), (panel.value_label, 0.5, "center"), (high, 1.0, "right")):
        bar.ax.annotate(text, (share, 0), (0, -4), ha=side, va="top", color=MUTED, **beside)
    if panel.reference is not None:
        for colour, width in (("white", 4.5), (MARK, 2.4)):
            bar.ax.axvline(panel.reference.value, color=colour, linewidth=width, gid="reference")
        share = (panel.reference.value - ends[0]) / (ends[1] - ends[0])
        said = f"{panel.reference.label} {minus(f'{panel.reference.value:.{panel.decimals}f}')}"
        side = "left" if share < 0.25 else "right" if share > 0.75 else "center"
        bar.ax.annotate(said, (share, 1), (0, 3), ha=side, va="bottom", color=INK, **beside)
