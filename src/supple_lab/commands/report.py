"""supple report: make a study's figures, tables and page from the store alone."""

import shlex
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from supple.methods import Method
from supple_lab import registry
from supple_lab.commands.base import DONE, FAILED, Command, values_of
from supple_lab.commands.terminal import advising, print_note, print_table, refusals_as_sentences
from supple_lab.files import StorageError
from supple_lab.paper.compare import LABELS
from supple_lab.paper.manifest import Manifest, read_manifest, studies_in
from supple_lab.paper.register import dated
from supple_lab.paper.study import Study, StudyOptions
from supple_lab.report.figure import Finding, StudyReport
from supple_lab.report.remarks import MAX_NAMED, counted
from supple_lab.report.study_json import ReportInfo
from supple_lab.report.write import only_asked, write_report
from supple_lab.results.load import load_results
from supple_lab.results.results import Results, Written, method_of
from supple_lab.spec import RunSpec
from supple_lab.store.reading import id_of
from supple_lab.store.store import Store

MEANINGLESS = "Smoke scale: the numbers mean nothing."
SMOKE = f"{MEANINGLESS} This scale shows that everything runs, and gives no verdict: take --scale quick."
Found = TypeVar("Found", bound=Finding)


@dataclass(frozen=True, kw_only=True)
class Report(Command):
    """Make a study's report from the runs there are."""

    name = "report"
    study: str = field(metadata={"place": "STUDY"})
    """Name of the study, or the folder of its runs."""
    out: Path | None = None
    """Folder of the runs; the report goes to OUT/report. Default: out/STUDY."""

    def run(self) -> int:
        given = Path(self.study)
        if self.out is None and given.is_dir():
            return report_all(given)
        if self.out is None and self.study not in registry.summaries("study"):
            what = "is a file, not a folder of runs" if given.exists() else "does not exist"
            raise StorageError(f"{self.study} {what}. Name the folder of the runs, or a study: supple report STUDY.")
        study = registry.find(Study, self.study)()
        print_drawing(*make_report(study, self.out or default_out(study)))
        return DONE


def report_all(out: Path) -> int:
    """Report every study in the folder; say of one that cannot be reported why, and go on."""
    Store.open(out)  # or StorageError, once
    names = studies_in(out)
    if not names:
        raise StorageError(
            f"{out} holds no study, and a report is made of one: supple run STUDY --out {out}. Runs that lie there are "
            f"kept, and those that are done are not run again. Runs of `supple train` and "
            f"`supple play` are shown by `supple list runs --out {out}`, and their curves by --track tensorboard."
        )
    untold = []
    for name in names:
        try:
            with refusals_as_sentences():
                print_drawing(*make_report(registry.find(Study, name)(), out))
        except (StorageError, registry.UnknownName) as error:
            untold.append(f"supple: no report of {name}: {error}")
    if len(names) > len(untold) + 1:
        print(f"overview: {(out / 'report' / 'index.html').resolve()}")
    print(*untold, sep="\n", end="\n" if untold else "", file=sys.stderr)
    return FAILED if untold else DONE


def make_report(study: Study, out: Path) -> tuple[StudyReport, Path]:
    """Load, draw, write: the drawing and where its page is."""
    store, manifest = Store.open(out), read_manifest(out, study.name)
    unknown = [name for name in manifest.order.also if name not in registry.known(Method)]
    order = replace(manifest.order, also=tuple(name for name in manifest.order.also if name not in unknown))
    grid = study.specs(order)
    ordered = {id_of(written) for written in manifest.specs}
    asked = [spec for spec in grid if spec.run_id in ordered]
    results = load_results(store, asked, conditions=conditions_of(study, order), methods=LABELS)
    if grid and all(run.state == "waiting" for run in results.runs):
        again = manifest.commands[-1] if manifest.commands else f"supple run {study.name} --out {out}"
        raise StorageError(f"{out} holds no run of {study.name}: none of those ordered has begun. Begin them: {again}")
    drawing = study.draw(results, order)
    drawing = replace(drawing, claims=tuple(map(dated, drawing.claims)))
    if len(asked) < len(grid):
        drawing = only_asked(drawing)
    if order.scale == "smoke":
        tables = tuple(replace(table, caption=f"{table.caption} {MEANINGLESS}") for table in drawing.tables)
        claims, notes = tuple(map(undecided, drawing.claims)), (SMOKE, *drawing.notes)
        drawing = replace(drawing, claims=claims, tables=tables, notes=notes)
    about = ReportInfo(
        study=study.name,
        title=study.title,
        question=study.question,
        scale=order.scale,
        command=" && ".join(manifest.commands),
        notes=(*notes_of_unknown(manifest, unknown), *notes_of_strangers(manifest, grid, unknown)),
    )
    with advising(f"Copy {out} to a place you may write to, and report the copy: supple report COPY."):
        page = write_report(out / "report", about, results=results, report=drawing)
    # What the reader of the screen can mend at once.
    for note in (*notes_of_unknown(manifest, unknown), *notes_of_damage(results, page)):
        print_note(note)
    return drawing, page


def print_drawing(drawing: StudyReport, page: Path) -> None:
    for table in drawing.tables:
        print_table(table.header, table.rows, title=table.caption, bold=table.bold)
    print(f"page: {page.resolve()}")


def conditions_of(study: Study, order: StudyOptions) -> dict[str, str]:
    """The label of each run's condition, by its id; all of them if several share the run."""
    labels: dict[str, dict[str, None]] = {}
    for condition in study.conditions(order):
        for spec in condition.specs(order):
            labels.setdefault(spec.run_id, {})[condition.label] = None
    return {run: "; ".join(names) for run, names in labels.items()}


def notes_of_strangers(manifest: Manifest, grid: Iterable[RunSpec], unknown: Collection[str]) -> tuple[str, ...]:
    """What was ordered and is none of the study's runs: another version had other ones. No number may rest on it.

    Runs of methods that are unknown here have a note of their own.
    """
    known = {spec.run_id for spec in grid}
    strangers = [one for one in manifest.specs if id_of(one) not in known and method_of(one) not in unknown]
    if not strangers:
        return ()
    are = "1 run was" if len(strangers) == 1 else f"{len(strangers)} runs were"
    return (
        f"{are} ordered by another version of supple, whose study has other runs than this one's: {listed(strangers)}. "
        "Nothing here rests on them; that version reports them.",
    )


def notes_of_unknown(manifest: Manifest, unknown: Sequence[str]) -> tuple[str, ...]:
    """Which runs are left out because their methods are nowhere to be found, and how they are found."""
    if not unknown:
        return ()
    left_out = listed([one for one in manifest.specs if method_of(one) in unknown])
    names = " or ".join(f"'{name}'" for name in unknown)
    files = dict.fromkeys(file for command in manifest.commands for file in plugins_in(command))
    before = f" (it was ordered with --plugin {' and '.join(files)})" if files else ""
    return (
        f"no method named {names} is known here, so its runs are left out{f': {left_out}' if left_out else ''}. "
        f"What is in a file of your own is found with --plugin FILE{before}.",
    )


def notes_of_damage(results: Results, page: Path) -> tuple[str, ...]:
    number = sum(run.state == "damaged" for run in results.runs)
    if not number:
        return ()
    are, them = ("is damaged and counts", "it") if number == 1 else ("are damaged and count", "them")
    return (
        f"{number} of {counted(len(results.runs))} {are} for nothing; the command that made {them} runs {them} again, "
        f"and {page}#missing lists {them}.",
    )


def plugins_in(command: str) -> list[str]:
    try:
        return [shlex.quote(file) for file in values_of("--plugin", shlex.split(command))]
    except ValueError:  # no command: a user wrote something else there
        return []


def listed(runs: Sequence[Written]) -> str:
    """The first few runs in words, and how many more there are."""
    named = "; ".join(
        f"{method_of(written)}, seed {written.get('seed', 'unknown')} ({id_of(written)})"
        for written in runs[:MAX_NAMED]
    )
    return f"{named}; and {len(runs) - MAX_NAMED} more" if len(runs) > MAX_NAMED else named


def undecided(row: Found) -> Found:
    """The claim, and each of its parts, after runs that are too short to decide anything."""
    if row.verdict == "not run":
        return row
    parts = tuple(map(undecided, row.parts))
    number = "1 comparison" if len(parts) == 1 else f"{len(parts)} comparisons"
    measured = f"{number} of runs too short to decide anything" if parts else row.measured
    return replace(row, verdict="not decided", measured=measured, remark="", parts=parts, chance=1.0)


def default_out(study: Study) -> Path:
    return Path("out") / study.name
