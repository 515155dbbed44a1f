"""A reading as text of at most 100 columns: layers as rows, then the numbers of the whole network."""

import textwrap
from collections.abc import Iterable

from supple.monitoring.layer_row import LayerRow
from supple.monitoring.reading import Reading

WIDTH = 100
NAME_WIDTH = 27
COLUMNS = {
    "units": 6,
    "dormant": 9,
    "saturated": 11,
    "sign entropy": 14,
    "srank": 9,
    "weight norm": 13,
    "grad norm": 11,
}
SOURCES = {"train": "training forward, {} samples", "probe": "probe in evaluation mode, {} samples"}


def table(reading: Reading) -> str:
    """The whole reading."""
    title = f"step {reading.step}: {SOURCES[reading.source].format(reading.num_samples)}"
    if not reading.num_samples:
        title = f"step {reading.step}: weights and gradients"
    return "\n".join([title, line("layer", COLUMNS), *map(layer_line, reading.layers), summary(reading.numbers)])


def layer_line(row: LayerRow) -> str:
    """One layer."""
    return line(row.name, [*unit_cells(row), number(row.weight_norm), number(row.gradient_norm)])


def unit_cells(row: LayerRow) -> list[str]:
    """What is known of the layer's units; dashes where no activation follows, or none was seen."""
    units = row.units
    if units is None:
        return ["-"] * 5
    rank = f"{units.srank:.0f}/{units.max_srank}"
    return [str(units.num_units), f"{units.dormant:.1%}", f"{units.saturated:.1%}", f"{units.sign_entropy:.3f}", rank]


def line(name: str, cells: Iterable[str]) -> str:
    """The name, shortened from the left where it is long, and the cells under their headings."""
    short = name if len(name) <= NAME_WIDTH else "..." + name[3 - NAME_WIDTH :]
    padded = (cell.rjust(width) for cell, width in zip(cells, COLUMNS.values(), strict=True))
    return short.ljust(NAME_WIDTH) + "".join(padded)


def summary(numbers: dict[str, float]) -> str:
    """The numbers of the network, as many to a line as fit."""
    cells = [f"{name}={number(value)}" for name, value in numbers.items()]
    return wrapped("all: " + "  ".join(cells), indent=5)


def number(value: float | None) -> str:
    """Four digits, or a dash."""
    return "-" if value is None else f"{value:.4g}"


def wrapped(text: str, indent: int) -> str:
    """The text in lines that fit, all but the first indented."""
    return textwrap.fill(text, WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)
