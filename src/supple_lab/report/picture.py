"""Figures as files and as parts of the page: PNG, PDF, and inline SVG. Equal figures give equal bytes."""

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes as Canvas
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Picture
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch
from matplotlib.text import Text

from supple_lab.report.colours import Look
from supple_lab.report.draw import INK, MUTED, RULE, STYLE, Looks, draw_, fill_of, line_of
from supple_lab.report.figure import AnyPanel, Figure, HeatMap, Panel, Range, key_of, legend_of

LABEL_GAP = 0.058  # of the axes' height: one line of text
DOTS_PER_INCH = 200
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
            "png": _saved(drawn, "png", dpi=DOTS_PER_INCH, metadata={"Software": None}),
            "pdf": _saved(drawn, "pdf", dpi=DOTS_PER_INCH, metadata={"CreationDate": None}),
        }


def _saved(drawn: Picture, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    drawn.savefig(file, format=kind, **options)
    drawn.set_layout_engine("none")  # laid out by the first save; the second would spend a second on the same answer
    return file.getvalue()


def _new_picture(width: float, height: float, pad: float = 0.1) -> Picture:
    drawn = Picture(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=pad, h_pad=pad, hspace=0.04))
    FigureCanvasAgg(drawn)
    return drawn


def _draw_titled_(canvas: Canvas, panel: AnyPanel, looks: Looks) -> None:
    draw_(canvas, panel, looks)
    canvas.set_title(panel.title, loc="left", fontsize=10.5, fontweight="bold", pad=10)
    if not isinstance(panel, HeatMap):
        canvas.set_xlabel(panel.x_label, labelpad=6)
    canvas.set_ylabel(panel.y_label, labelpad=6)


def picture(figure: Figure) -> Picture:
    """The figure drawn, without any global state of matplotlib."""
    looks = legend_of(figure)
    num_columns = max(1, min(len(figure.panels), figure.columns))
    num_rows = max(1, math.ceil(len(figure.panels) / num_columns))
    curves = all(isinstance(panel, Panel) for panel in figure.panels)
    direct = curves and len(figure.panels) <= 1 and len(looks) <= MAX_DIRECT_LABELS
    width, height = SINGLE_SIZE if len(figure.panels) < 2 else (num_columns * PANEL_SIZE[0], num_rows * PANEL_SIZE[1])
    # As many names as fit side by side, or as few as need no more rows.
    longest = max((len(label) for _, label in looks), default=1)
    fitting = max(1, math.floor(width / (LEGEND_HANDLE + LEGEND_LETTER * longest)))
    legend_rows = 0 if direct else math.ceil(len(looks) / fitting)
    drawn = _new_picture(width, height + LEGEND_ROW * legend_rows)
    for place, panel in enumerate(figure.panels, start=1):
        canvas = drawn.add_subplot(num_rows, num_columns, place)
        _draw_titled_(canvas, panel, looks)
        if direct and isinstance(panel, Panel):
            _label_ends_(canvas, panel, looks)
    if legend_rows:
        lines = any(isinstance(panel, Panel) for panel in figure.panels)
        handles: list[Artist] = [
            line_of(look, label=label) if lines else Patch(label=label, **fill_of(look))
            for (_, label), look in looks.items()
        ]
        in_a_row = math.ceil(len(looks) / legend_rows)
        drawn.legend(handles=handles, loc="outside lower center", ncols=in_a_row, frameon=False, handlelength=3.2)
    return drawn


def _label_ends_(canvas: Canvas, panel: Panel, looks: Looks) -> None:
    """Write each curve's name at its right end, moved apart if ends meet."""
    scale, ends = canvas.transScale + canvas.transLimits, []
    for curve in panel.curves:
        drawn = np.flatnonzero(np.isfinite(curve.middle))
        ends.append(float(scale.transform((curve.x[drawn[-1]], curve.middle[drawn[-1]]))[1]) if len(drawn) else 0.0)
    for curve, height in zip(panel.curves, spread(ends, LABEL_GAP), strict=True):
        look = looks[key_of(curve)]
        weight = "bold" if look.stands_out else "normal"
        options: Any = {"transform": canvas.transAxes, "color": look.light, "va": "center", "fontweight": weight}
        canvas.text(1.02, height, curve.label, **options)


def spread(wanted: list[float], gap: float) -> list[float]:
    """Return the positions nearest to the wanted ones, in squares, that keep their order and lie a gap apart."""
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


PIXELS_PER_POINT = 1.4  # of the page: letters of 9 points are as large as its small print
NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
COLOURS = {  # parts of style attributes
    MUTED: "var(--muted)",
    RULE: "var(--rule)",
    INK: "var(--text)",
    "stroke: #ffffff": "stroke: var(--page)",
    "font-family: 'DejaVu Sans'; ": "",
}
ENTRY = re.compile(r"(curve|band|bar|violin|quartile)-(\d+)")
NUMBER = re.compile(r"-?\d+\.\d+")
COMMAND = re.compile(r" ?([MLCQz]) ?")  # of a path
XLINK = "{http://www.w3.org/1999/xlink}href"


@dataclass(frozen=True, kw_only=True)
class PanelSvg:
    """A panel as SVG for the page, and where its axes are."""

    content: str  # of the svg element
    view_box: str
    box: tuple[float, ...]  # left, top, width, height of the plot in percent of the whole
    x_range: Range
    y_range: Range


def inline_svg(
    panel: AnyPanel, looks: Looks, *, pixels: tuple[float, float], salt: str, tips: Sequence[str] = ()
) -> PanelSvg:
    """Draw the panel for the page, without title and names. salt: makes ids unique; tips: words of the cells."""
    with rc_context(STYLE | {"svg.hashsalt": salt}):
        width, height = (length / PIXELS_PER_POINT / 72 for length in pixels)
        drawn = _new_picture(width, height, pad=0.03)
        canvas = drawn.add_subplot()
        draw_(canvas, panel, looks)
        for text in drawn.findobj(Text):
            text.set_path_effects([])  # or it is drawn as shapes; page.css draws a halo
        for patch in (drawn.patch, *(canvas.patch for canvas in drawn.axes)):
            patch.set_visible(False)
        for bar in canvas.patches:
            bar.set(hatch=None)  # its pattern does not know the colours of the page
        root = ElementTree.fromstring(_saved(drawn, "svg", metadata=NO_METADATA))
        (left, bottom), (right, top) = canvas.get_position().get_points()
    _adapt_(root, list(looks.values()), tips)
    inner = "".join(ElementTree.tostring(child, encoding="unicode") for child in root)
    return PanelSvg(
        content=inner,
        view_box=root.attrib["viewBox"],
        box=tuple(round(100 * float(share), 2) for share in (left, 1 - top, right - left, top - bottom)),
        x_range=canvas.get_xlim(),
        y_range=canvas.get_ylim(),
    )


def _adapt_(root: ElementTree.Element, looks: Sequence[Look], tips: Sequence[str]) -> None:
    """Adapt the tree to the page: its fonts, its colours in light and dark, and its names for the script."""
    for child in [child for child in root if child.tag.endswith("metadata") or child.find("{*}style") is not None]:
        root.remove(child)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        name = element.attrib.pop("id", "") if element.tag == "g" else ""
        if found := ENTRY.fullmatch(name):
            look = looks[int(found[2])]
            element.set("class", f"{found[1]} inked")
            element.set("data-entry", found[2])
            element.set("style", f"--ink-light:{look.light};--ink-dark:{look.dark}")
            for part in element.iter():
                if "style" in part.attrib and part is not element:
                    part.set("style", part.attrib["style"].replace(look.light, "var(--ink)"))
        elif name.startswith("cell-"):
            element.set("class", "cell")
            element.set("data-tip", tips[int(name.removeprefix("cell-"))])
        elif name == "level-name":
            element.set("class", name)
        if XLINK in element.attrib:
            element.set("href", element.attrib.pop(XLINK))
        _adapt_attributes_(element)
    for group in root.iter("g"):
        styles = {part.attrib.get("style", "") for part in group}
        if len(styles) == 1 and {part.tag for part in group} == {"use"}:  # the markers of a curve
            group.set("style", styles.pop())
            for part in group:
                part.attrib.pop("style", None)


def _adapt_attributes_(element: ElementTree.Element) -> None:
    given = element.attrib
    for key in {"d", "x", "y", "width", "height", "transform"} & given.keys():
        rounded = NUMBER.sub(lambda number: f"{round(float(number[0]), 2):g}", given[key])
        element.set(key, COMMAND.sub(r"\1", " ".join(rounded.split())))
    if given.get("transform", "").startswith("rotate(-0 "):
        del given["transform"]
    for old, new in COLOURS.items():
        if "style" in given:
            element.set("style", given["style"].replace(old, new))
    element.text, element.tail = (element.text if element.tag == "text" else None), None
