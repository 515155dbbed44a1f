"""Asked: a drawing without what was not asked for, where an order named some of a study's methods or conditions."""

from dataclasses import replace

from supple_lab.report.figure import Figure, StudyReport, Table
from supple_lab.report.tables import ABSENT

COUNTS = ("n", "seeds")  # headers of columns that count runs


def only_asked(drawing: StudyReport) -> StudyReport:
    """The drawing without claims that nothing was run for, empty panels, and rows, columns and tables of dashes.

    A claim that some of its conditions were run for keeps all of them: without the others it is not decided.
    """
    return replace(
        drawing,
        figures=tuple(map(_with_curves, drawing.figures)),
        tables=tuple(table for table in map(_with_values, drawing.tables) if table.rows),
        claims=tuple(row for row in drawing.claims if row.verdict != "not run"),
    )


def _with_curves(figure: Figure) -> Figure:
    drawn = tuple(panel for panel in figure.panels if not panel.is_empty)
    return replace(figure, panels=drawn or figure.panels)


def _with_values(table: Table) -> Table:
    rows = [place for place, row in enumerate(table.rows) if not _is_empty(table, row)]
    columns = [place for place in range(len(table.header)) if any(table.rows[row][place] != ABSENT for row in rows)]
    return table.part(rows=rows, columns=columns)


def _is_empty(table: Table, row: tuple[str, ...]) -> bool:
    """Whether the row counts no run, or shows nothing but dashes."""
    no_run = any(name in COUNTS and cell == "0" for name, cell in zip(table.header, row, strict=True))
    return no_run or set(row[1:]) == {ABSENT}
