"""Heat maps of the page: coloured cells with their numbers, and a colour bar."""

import numpy as np

from supple_lab.report.colours import Look
from supple_lab.report.draw import MARK, Cell, cells, shade, shade_range
from supple_lab.report.figure import HeatMap, Key
from supple_lab.report.remarks import counted
from supple_lab.report.svg.shape import Mark, Numbers, Shape

NUM_STOPS = 13  # of the colour bar; between two of them cividis is as good as straight


def cells_shape(panel: HeatMap, looks: dict[Key, Look]) -> Shape:
    """The panel's geometry."""
    drawn = cells(panel)
    return Shape(
        kind="cells",
        panel=panel,
        parts=[(cell, _words(panel, cell)) for cell in drawn],
        x_ticks=_middles(panel.columns),
        y_ticks=_middles(panel.rows),
        summary=_summary(panel),
        numbers=[_numbers(panel, drawn)] if panel.values.size else [],
        data={},
        extra={
            "width": 100 / max(1, len(panel.columns)),
            "height": 100 / max(1, len(panel.rows)),
            "stops": [shade(share) for share in np.linspace(0.0, 1.0, NUM_STOPS)],
            "ends": [_show(panel, end) for end in shade_range(panel)],
            "reference": _reference(panel),
            "mark": MARK,
        },
    )


def _middles(names: tuple[str, ...]) -> list[Mark]:
    return [Mark(at=round(100 * (i + 0.5) / len(names), 2), label=name) for i, name in enumerate(names)]


def _reference(panel: HeatMap) -> Mark | None:
    if panel.reference is None:
        return None
    low, high = shade_range(panel)
    at = round(100 * (panel.reference.value - low) / (high - low), 2)
    return Mark(at=at, label=f"{panel.reference.label} {_show(panel, panel.reference.value)}")


def _show(panel: HeatMap, value: float) -> str:
    return f"{value:.{panel.decimals}f}".replace("-", "\N{MINUS SIGN}")


def _words(panel: HeatMap, cell: Cell) -> str:
    """What is said of a cell under the pointer, in lines."""
    place = f"{panel.y_label} {panel.rows[cell.row]}, {panel.x_label} {panel.columns[cell.column]}"
    sample = panel.samples[cell.row][cell.column]
    if not cell.shade:
        lost = int(np.count_nonzero(~np.isfinite(sample)))
        return "\n".join(
            (place, f"{lost} of {counted(len(sample))} without a value" if lost else "no finished runs yet")
        )
    lines = [place, f"{'mean' if len(sample) > 1 else 'value'} {cell.value} {cell.deviation}".strip()]
    lines.append(f"95% bootstrap {interval}, n = {len(sample)}" if (interval := _interval(panel, cell)) else "n = 1")
    if panel.reference is not None:
        difference = float(panel.values[cell.row, cell.column]) - panel.reference.value
        side = f"{_show(panel, abs(difference))} {'above' if difference > 0 else 'below'}" if difference else "equal to"
        lines.append(f"{side} {panel.reference.label}")
    return "\n".join(lines)


def _interval(panel: HeatMap, cell: Cell) -> str:
    interval = panel.bootstrap(cell.row, cell.column) if cell.shade else None
    return " to ".join(_show(panel, end) for end in interval) if interval else ""


def _summary(panel: HeatMap) -> str:
    if not np.isfinite(panel.values).any():
        return "No finished runs yet."
    row, column = np.unravel_index(np.nanargmax(panel.values), panel.values.shape)
    best = _show(panel, float(panel.values[row, column]))
    place = f"{panel.y_label} {panel.rows[row]} and {panel.x_label} {panel.columns[column]}"
    return f"{panel.value_label or 'value'} by {panel.y_label} and {panel.x_label}. Highest: {best} at {place}."


def _numbers(panel: HeatMap, drawn: list[Cell]) -> Numbers:
    rows = [[cell for cell in drawn if cell.row == row] for row in range(len(panel.rows))]
    told = "; in brackets: 95% bootstrap" if any(_interval(panel, cell) for cell in drawn) else ""
    return Numbers(
        caption=f"{panel.title}: {panel.value_label or 'values'}{told}",
        header=(f"{panel.y_label} \\ {panel.x_label}", *panel.columns),
        rows=tuple((name, *(_told(panel, cell) for cell in row)) for name, row in zip(panel.rows, rows, strict=True)),
    )


def _told(panel: HeatMap, cell: Cell) -> str:
    interval = _interval(panel, cell)
    return " ".join(part for part in (cell.value, cell.deviation, f"[{interval}]" if interval else "") if part)
