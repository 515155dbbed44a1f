"""The report on disk: pictures, tables and JSON first, the pages that link to them last."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from supple_lab.files import atomic_write, writing
from supple_lab.provenance import gather_provenance
from supple_lab.report import tables
from supple_lab.report.figure import StudyReport, Table
from supple_lab.report.page import page, template
from supple_lab.report.picture import picture_files
from supple_lab.report.study_json import ReportInfo, study_json
from supple_lab.report.tables import ABSENT, claims_table, printed_claims
from supple_lab.results.results import Results


def write_report(folder: Path, info: ReportInfo, *, results: Results, report: StudyReport) -> Path:
    """Write all files of a study's report into the folder; return the study's page.

    index.html is that page again if the folder holds no other study, else a list of all of them.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    shown = replace(report, figures=tuple(figure.filled() for figure in report.figures))
    for name, content in report_files(info, results=results, report=shown):
        atomic_write(folder / name, content)
    own, index = folder / f"{info.study}.html", folder / "index.html"
    studies = sorted(path.stem for path in folder.glob("*.html") if path != index)
    alone = studies == [info.study]
    atomic_write(index, own.read_bytes() if alone else template("overview.html").render(studies=studies).encode())
    return index if alone else own


def report_files(info: ReportInfo, *, results: Results, report: StudyReport) -> Iterator[tuple[str, bytes]]:
    provenance = gather_provenance()
    for figure in report.figures:
        stem = info.stem(figure.name)
        yield from ((f"{stem}.{ending}", content) for ending, content in picture_files(figure).items())
    for table in report.tables:
        yield from _table_files(info.stem(table.name), table)
    notes = (*info.notes, *report.notes)
    whole, printed = (table(report.claims, notes=notes) for table in (claims_table, printed_claims))
    yield from _table_files(info.stem(whole.name), whole, on_paper=printed)
    text = study_json(info, results, report=report, provenance=provenance)
    yield f"{info.study}.json", text.encode()
    yield f"{info.study}.html", page(info, results, report=report, provenance=provenance).encode()


def _table_files(stem: str, table: Table, *, on_paper: Table | None = None) -> Iterator[tuple[str, bytes]]:
    yield f"{stem}.md", tables.markdown(table).encode()
    yield f"{stem}.tex", tables.latex(on_paper or table, label=stem).encode()
    yield f"{stem}.csv", tables.comma_separated(table).encode()


COUNTS = ("n", "seeds")  # headers of columns that count runs


def only_asked(report: StudyReport) -> StudyReport:
    """The report without claims that nothing was run for, empty panels, and rows, columns and tables of dashes.

    A claim that some of its conditions were run for keeps all of them: without the others it is not decided.
    """
    return replace(
        report,
        figures=tuple(
            replace(figure, panels=tuple(panel for panel in figure.panels if not panel.is_empty) or figure.panels)
            for figure in report.figures
        ),
        tables=tuple(table for table in map(_with_values, report.tables) if table.rows),
        claims=tuple(row for row in report.claims if row.verdict != "not run"),
    )


def _with_values(table: Table) -> Table:
    counts = [place for place, name in enumerate(table.header) if name in COUNTS]
    rows = [
        place
        for place, row in enumerate(table.rows)
        if set(row[1:]) != {ABSENT} and all(row[count] != "0" for count in counts)
    ]
    columns = [place for place in range(len(table.header)) if any(table.rows[row][place] != ABSENT for row in rows)]
    return table.part(rows=rows, columns=columns)
