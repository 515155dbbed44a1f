"""The numbers of a panel: in words, in tables behind the figure, and as data under the pointer."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from supple_lab.report.draw import Cell, Looks, cells
from supple_lab.report.figure import (
    AnyPanel,
    Bars,
    Distribution,
    HeatMap,
    Histogram,
    Key,
    Line,
    Panel,
    Range,
    Table,
    key_of,
)
from supple_lab.report.remarks import counted
from supple_lab.report.tables import ABSENT, minus

POINTS = "points: "  # begins the words in brackets that say what a point of a curve stands for


@dataclass(frozen=True, kw_only=True)
class PanelValues:
    """What a panel shows, in numbers."""

    summary: str  # in words, for a reader who does not see it
    numbers: list[Table]  # behind the figure, for a reader who wants them
    data: dict[str, Any]  # for the values under the pointer


def values_of(panel: AnyPanel, looks: Looks, *, x_range: Range, y_range: Range) -> PanelValues:
    """Gather the numbers; the ranges of the drawn axes decide places and decimals."""
    if isinstance(panel, HeatMap):
        return PanelValues(summary=_summary_of_cells(panel), numbers=_numbers_of_cells(panel), data={})
    is_linear = isinstance(panel, Bars) or panel.y_scale == "linear"
    low, high = panel.y_range or y_range
    decimals = int(np.clip(3 - math.ceil(math.log10(high - low)), 0, 6)) if is_linear else None
    names = None if isinstance(panel, Panel) else panel.positions
    ordered = sorted(lines_of(panel), key=lambda line: looks[key_of(line)].stands_out)
    heading = heading_of(panel)
    parts = [
        f"{line.label}: from {show(line.middle[0], decimals)} to {show(line.middle[-1], decimals)}"
        for line in ordered
        if len(line.middle)
    ]
    return PanelValues(
        summary=f"{panel.y_label} against {panel.x_label}. {'; '.join(parts) or panel.nothing.capitalize()}.",
        numbers=[_numbers(panel.title, heading, line, names=names, decimals=decimals) for line in ordered],
        data={
            "heading": heading,
            "place": heading + ":" * ("," in heading),  # before a number: "stage 7", "stage, means of 8: 200"
            "decimals": decimals,
            "range": x_range,
            "names": names,
            "curves": [_line_data(line, list(looks).index(key_of(line)), decimals) for line in ordered],
        },
    )


def lines_of(panel: Panel | Bars | Distribution) -> tuple[Line, ...]:
    """The panel's lines; those of a distribution are the medians, between the other quartiles."""
    if not isinstance(panel, Distribution):
        return panel.entries
    groups: dict[Key, list[Histogram]] = {}
    for histogram in panel.histograms:
        groups.setdefault(key_of(histogram), []).append(histogram)
    return tuple(
        Line(
            method=method,
            label=label,
            x=np.array([panel.positions.index(one.position) for one in group]),
            middle=np.array([one.quartiles[1] for one in group]),
            low=np.array([one.quartiles[0] for one in group]),
            high=np.array([one.quartiles[2] for one in group]),
            n=group[0].n,
            statistic="median",
            band_words="quartiles",
            edges=("first quartile", "third quartile"),
        )
        for (method, label), group in groups.items()
    )


def show(value: float, decimals: int | None) -> str:
    """A value as text, to four digits on an axis that is not linear."""
    if not math.isfinite(value):
        return ABSENT
    return minus(f"{value:.4g}" if decimals is None else f"{value:.{decimals}f}")


def heading_of(panel: AnyPanel) -> str:
    """The horizontal axis' name without what stands in brackets, but for what a point is: "stage, means of 8"."""
    name, _, aside = panel.x_label.partition(" (")
    points = aside.removesuffix(")").removeprefix(POINTS)
    return f"{name}, {points}" if aside.startswith(POINTS) else name


def _numbers(title: str, heading: str, line: Line, *, names: tuple[str, ...] | None, decimals: int | None) -> Table:
    rows = [(line.statistic, line.middle)]
    if line.has_band:
        rows += zip(line.edges, (line.low, line.high), strict=True)
    if line.bootstrap is not None:
        rows += zip(("95% bootstrap from", "95% bootstrap to"), line.bootstrap, strict=True)
    return Table(
        name=line.label,
        caption=f"{title}: {line.label}, n = {line.n}",
        header=(heading, *(names[int(x)] if names else minus(f"{float(x):g}") for x in line.x)),
        rows=tuple((name, *(show(float(y), decimals) for y in values)) for name, values in rows),
    )


def _line_data(line: Line, entry: int, decimals: int | None) -> dict[str, Any]:
    """A line's numbers for the script, to one digit more than are shown."""
    edges = {"low": line.low, "high": line.high} if line.has_band else {}
    if line.bootstrap is not None:
        edges |= dict(zip(("lower", "upper"), line.bootstrap, strict=True))
    return {
        "entry": entry,
        "n": line.n,
        "line": line.statistic,
        "band": line.band_words,
        "x": line.x.tolist(),
        **{
            name: [float(f"{y:.5g}") if decimals is None else round(float(y), decimals + 1) for y in values]
            for name, values in {"middle": line.middle, **edges}.items()
        },
    }


def tip_of(panel: HeatMap, cell: Cell) -> str:
    """What is said of the cell under the pointer, in lines."""
    place = f"{panel.y_label} {panel.rows[cell.row]}, {panel.x_label} {panel.columns[cell.column]}"
    sample = panel.samples[cell.row][cell.column]
    if not cell.shade:
        lost = int(np.count_nonzero(~np.isfinite(sample)))
        return f"{place}\n{f'{lost} of {counted(len(sample))} without a value' if lost else panel.nothing}"
    lines = [place, f"{'mean' if len(sample) > 1 else 'value'} {cell.value} {cell.deviation}".strip()]
    lines.append(f"95% bootstrap {interval}, n = {len(sample)}" if (interval := _interval(panel, cell)) else "n = 1")
    if panel.reference is not None:
        difference = float(panel.values[cell.row, cell.column]) - panel.reference.value
        distance, side = show(abs(difference), panel.decimals), "above" if difference > 0 else "below"
        lines.append(f"{f'{distance} {side}' if difference else 'equal to'} {panel.reference.label}")
    return "\n".join(lines)


def _interval(panel: HeatMap, cell: Cell) -> str:
    interval = panel.bootstrap(cell.row, cell.column) if cell.shade else None
    return " to ".join(show(end, panel.decimals) for end in interval) if interval else ""


def _summary_of_cells(panel: HeatMap) -> str:
    if not np.isfinite(panel.values).any():
        return f"{panel.nothing.capitalize()}."
    row, column = np.unravel_index(np.nanargmax(panel.values), panel.values.shape)
    best = show(float(panel.values[row, column]), panel.decimals)
    place = f"{panel.y_label} {panel.rows[row]} and {panel.x_label} {panel.columns[column]}"
    return f"{panel.value_label or 'value'} by {panel.y_label} and {panel.x_label}. Highest: {best} at {place}."


def _numbers_of_cells(panel: HeatMap) -> list[Table]:
    rows: list[list[str]] = [[name] for name in panel.rows]
    for cell in cells(panel):
        brackets = f"[{interval}]" if (interval := _interval(panel, cell)) else ""
        rows[cell.row].append(" ".join(filter(None, (cell.value, cell.deviation, brackets))))
    aside = "; in brackets: 95% bootstrap" if any("[" in text for row in rows for text in row[1:]) else ""
    caption = f"{panel.title}: {panel.value_label or 'values'}{aside}"
    header = (f"{panel.y_label} \\ {panel.x_label}", *panel.columns)
    table = Table(name="cells", caption=caption, header=header, rows=tuple(map(tuple, rows)))
    return [table] if panel.values.size else []
