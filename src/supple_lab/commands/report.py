"""supple report: make a study's figures, tables and page from the store alone."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro

from supple_lab import lookup
from supple_lab.atomic_write import StorageError
from supple_lab.commands.base import DONE, Command
from supple_lab.commands.screen import print_drawing
from supple_lab.report.about import About
from supple_lab.report.figure import ClaimRow, Drawing
from supple_lab.report.results import load_results
from supple_lab.report.write import write_report
from supple_lab.runs.store import Store
from supple_lab.studies.base import Study
from supple_lab.studies.manifest import Manifest, read_manifest, studies_in


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
            names = studies_in(given) or [_no_study(given)]
            for name in names:
                print_drawing(*make_report(lookup.find(Study, name)(), given))
            if len(names) > 1:
                print(f"overview: {(given / 'report' / 'index.html').resolve()}")
        else:
            study = lookup.find(Study, self.study)()
            print_drawing(*make_report(study, self.out or default_out(study)))
        return DONE


def make_report(study: Study, out: Path) -> tuple[Drawing, Path]:
    """Load, draw, write: the drawing and where its page is."""
    store, manifest = Store.open(out), read_manifest(out, study.name)
    grid = {spec.run_id: spec for spec in [*study.specs(manifest.order), *manifest.run_specs()]}
    results = load_results(store, grid.values())
    drawing = study.draw(results, manifest.order)
    if manifest.order.scale == "smoke" and grid:
        drawing = replace(drawing, claims=tuple(map(undecided, drawing.claims)))
    about = About(
        study=study.name,
        title=study.title,
        question=study.question,
        scale=manifest.order.scale,
        command=" && ".join(manifest.commands),
        notes=notes_of(manifest),
    )
    return drawing, write_report(out / "report", about, results=results, drawing=drawing)


def notes_of(manifest: Manifest) -> tuple[str, ...]:
    """What a reader must know of the order itself."""
    num_foreign = len(manifest.specs) - len(manifest.run_specs())
    if not num_foreign:
        return ()
    return (f"{num_foreign} runs of the folder were ordered by another version, which this one cannot read.",)


def undecided(row: ClaimRow) -> ClaimRow:
    """The claim after runs that are too short to tell anything of it."""
    return row if row.verdict == "not run" else replace(row, verdict="not decided")


def default_out(study: Study) -> Path:
    """Where a study's runs go unless told otherwise."""
    return Path("out") / study.name


def _no_study(out: Path) -> str:
    raise StorageError(f"{out} holds no study. Make one: supple run STUDY --out {out}")
