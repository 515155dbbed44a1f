"""Shades of a heat map: cividis, whose lightness rises evenly, so that it reads the same in grey and to every eye."""

from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex

from supple_lab.report.axes import from_zero, span
from supple_lab.report.panel import HeatMap, Range

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
