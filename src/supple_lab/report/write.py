"""The report on disk: pictures, tables and JSON first, the page that links to them last."""

from collections.abc import Iterator
from pathlib import Path

from supple_lab.atomic_write import atomic_write, storage_error
from supple_lab.report import plots, tables
from supple_lab.report.about import About
from supple_lab.report.figure import Drawing, Table
from supple_lab.report.page import page
from supple_lab.report.provenance import gather_provenance
from supple_lab.report.results import Results
from supple_lab.report.study_json import study_json


def write_report(folder: Path, about: About, *, results: Results, drawing: Drawing) -> Path:
    """Write all files of a study's report into the folder; return the page."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(error, folder) from error
    for name, content in report_files(about, results=results, drawing=drawing):
        atomic_write(folder / name, content)
    return folder / "index.html"


def report_files(about: About, *, results: Results, drawing: Drawing) -> Iterator[tuple[str, bytes]]:
    """Each file's name and content."""
    provenance = gather_provenance()
    for figure in drawing.figures:
        yield from ((f"{figure.name}.{ending}", content) for ending, content in plots.picture_files(figure).items())
    for table in (*drawing.tables, tables.claims_table(drawing.claims)):
        yield from _table_files(table)
    text = study_json(about, results, claims=drawing.claims, provenance=provenance)
    yield f"{about.study}.json", text.encode()
    yield "index.html", page(about, results, drawing=drawing, provenance=provenance).encode()


def _table_files(table: Table) -> Iterator[tuple[str, bytes]]:
    yield f"{table.name}.md", tables.markdown(table).encode()
    yield f"{table.name}.tex", tables.latex(table).encode()
    yield f"{table.name}.csv", tables.comma_separated(table).encode()
