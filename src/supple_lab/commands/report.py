"""supple report: make a study's figures, tables and page from the store alone."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, TypeVar

import tyro

from supple_lab import lookup
from supple_lab.atomic_write import StorageError
from supple_lab.commands.base import DONE, FAILED, Command
from supple_lab.commands.screen import print_drawing
from supple_lab.report.about import About
from supple_lab.report.figure import Drawing, Finding
from supple_lab.report.load import load_results
from supple_lab.report.remarks import MAX_NAMED
from supple_lab.report.write import write_report
from supple_lab.report.written_spec import Written, id_of, name_of
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.store import Store
from supple_lab.studies.base import Study
from supple_lab.studies.labels import LABELS
from supple_lab.studies.manifest import Manifest, read_manifest, studies_in
from supple_lab.studies.order import Order

Found = TypeVar("Found", bound=Finding)


@dataclass(frozen=True, kw_only=True)
class Report(Command):
    """Make a study's report from the runs there are."""

    study: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="STUDY")]
    """Name of the study, or the folder of its runs."""
    out: Path | None = None
    """Folder of the runs; the report goes to OUT/report. Default: out/STUDY."""

    def obey(self) -> int:
        given = Path(self.study)
        if self.out is None and given.is_dir():
            return report_all(given)
        study = lookup.find(Study, self.study)()
        print_drawing(*make_report(study, self.out or default_out(study)))
        return DONE


def report_all(out: Path) -> int:
    """The report of every study in the folder; one that cannot be made is told, and the others are made."""
    Store.open(out)  # or StorageError, once
    names = studies_in(out) or [_no_study(out)]
    untold = []
    for name in names:
        try:
            print_drawing(*make_report(lookup.find(Study, name)(), out))
        except (StorageError, lookup.UnknownName) as error:
            untold.append(f"supple: no report of {name}: {error}")
    if len(names) > len(untold) + 1:
        print(f"overview: {(out / 'report' / 'index.html').resolve()}")
    print(*untold, sep="\n", end="\n" if untold else "", file=sys.stderr)
    return FAILED if untold else DONE


def make_report(study: Study, out: Path) -> tuple[Drawing, Path]:
    """Load, draw, write: the drawing and where its page is."""
    store, manifest = Store.open(out), read_manifest(out, study.name)
    grid = study.specs(manifest.order)
    results = load_results(store, grid, conditions=conditions_of(study, manifest.order), methods=LABELS)
    drawing = study.draw(results, manifest.order)
    if manifest.order.scale == "smoke":
        drawing = replace(drawing, claims=tuple(map(undecided, drawing.claims)))
    about = About(
        study=study.name,
        title=study.title,
        question=study.question,
        scale=manifest.order.scale,
        command=" && ".join(manifest.commands),
        notes=notes_of(strangers_in(manifest, grid)),
    )
    return drawing, write_report(out / "report", about, results=results, drawing=drawing)


def strangers_in(manifest: Manifest, grid: Iterable[RunSpec]) -> list[Written]:
    """What was ordered and is none of the study's runs: another version had other ones. No number may rest on it."""
    known = {spec.run_id for spec in grid}
    return [written for written in manifest.specs if id_of(written) not in known]


def conditions_of(study: Study, order: Order) -> dict[str, str]:
    """The label of each run's condition, by its id; all of them where several share the run."""
    labels: dict[str, dict[str, None]] = {}
    for condition in study.conditions(order):
        for spec in condition.specs(order):
            labels.setdefault(spec.run_id, {})[condition.label] = None
    return {run: "; ".join(names) for run, names in labels.items()}


def notes_of(strangers: Sequence[Written]) -> tuple[str, ...]:
    """What a reader must know of the order itself."""
    if not strangers:
        return ()
    named = "; ".join(name_of(written) for written in strangers[:MAX_NAMED])
    more = f"; and {len(strangers) - MAX_NAMED} more" if len(strangers) > MAX_NAMED else ""
    are = "1 run was" if len(strangers) == 1 else f"{len(strangers)} runs were"
    return (
        f"{are} ordered by another version of supple, whose study has other runs than this one's: {named}{more}. "
        "Nothing here rests on them; that version reports them.",
    )


def undecided(row: Found) -> Found:
    """The claim, and each of its parts, after runs that are too short to tell anything of it."""
    if row.verdict == "not run":
        return row
    parts = tuple(map(undecided, row.parts))
    number = "1 comparison" if len(parts) == 1 else f"{len(parts)} comparisons"
    measured = f"{number} of runs too short to decide anything" if parts else row.measured
    return replace(row, verdict="not decided", measured=measured, remark="", parts=parts, chance=1.0)


def default_out(study: Study) -> Path:
    """Where a study's runs go unless told otherwise."""
    return Path("out") / study.name


def _no_study(out: Path) -> str:
    raise StorageError(
        f"{out} holds no study, and a report is made of one: supple run STUDY --out {out}. Runs that lie there are "
        f"kept, and those that are done are not run again. Runs of `supple train` and "
        f"`supple play` are shown by `supple list runs --out {out}`, and their curves by --track tensorboard."
    )
