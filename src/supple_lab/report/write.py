"""The report on disk: pictures, tables and JSON first, the pages that link to them last."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from supple_lab.files import atomic_write, storage_error
from supple_lab.provenance import gather_provenance
from supple_lab.report import tables
from supple_lab.report.draw import picture_files
from supple_lab.report.figure import StudyReport, Table
from supple_lab.report.overview import card_json, card_of, cards_in, overview
from supple_lab.report.page import page
from supple_lab.report.study_json import ReportInfo, study_json
from supple_lab.report.tables import claims_table, printed_claims
from supple_lab.results.results import Results


def write_report(folder: Path, about: ReportInfo, *, results: Results, drawing: StudyReport) -> Path:
    """Write all files of a study's report into the folder; return the study's page.

    index.html is that page again where the folder holds no other study, else an overview of all of them.
    """
    try:
        (folder / "cards").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(error, folder) from error
    shown = replace(drawing, figures=tuple(figure.filled() for figure in drawing.figures))
    for name, content in report_files(about, results=results, drawing=shown):
        atomic_write(folder / name, content)
    own, index = folder / f"{about.study}.html", folder / "index.html"
    cards = cards_in(folder)
    alone = [card.study for card in cards] == [about.study]
    atomic_write(index, own.read_bytes() if alone else overview(cards).encode())
    return index if alone else own


def report_files(about: ReportInfo, *, results: Results, drawing: StudyReport) -> Iterator[tuple[str, bytes]]:
    """Each file's name and content."""
    provenance = gather_provenance()
    for figure in drawing.figures:
        stem = about.stem(figure.name)
        yield from ((f"{stem}.{ending}", content) for ending, content in picture_files(figure).items())
    for table in drawing.tables:
        yield from _table_files(about.stem(table.name), table)
    yield from _claims_files(about, drawing)
    text = study_json(about, results, drawing=drawing, provenance=provenance)
    yield f"{about.study}.json", text.encode()
    yield f"{about.study}.html", page(about, results, drawing=drawing, provenance=provenance).encode()
    yield f"cards/{about.study}.json", card_json(card_of(about, results, drawing)).encode()


def _claims_files(about: ReportInfo, drawing: StudyReport) -> Iterator[tuple[str, bytes]]:
    notes = (*about.notes, *drawing.notes)
    whole, printed = (table(drawing.claims, notes=notes) for table in (claims_table, printed_claims))
    yield from _table_files(about.stem(whole.name), whole, on_paper=printed)


def _table_files(stem: str, table: Table, *, on_paper: Table | None = None) -> Iterator[tuple[str, bytes]]:
    yield f"{stem}.md", tables.markdown(table).encode()
    yield f"{stem}.tex", tables.latex(on_paper or table, label=stem).encode()
    yield f"{stem}.csv", tables.comma_separated(table).encode()
