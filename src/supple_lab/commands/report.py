"""supple report: make a study's figures, tables and page from the store alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from supple_lab import lookup
from supple_lab.atomic_write import StorageError
from supple_lab.commands.base import DONE, Command
from supple_lab.commands.screen import print_drawing
from supple_lab.report.about import About
from supple_lab.report.figure import Drawing
from supple_lab.report.results import load_results
from supple_lab.report.write import write_report
from supple_lab.runs.store import Store
from supple_lab.studies.base import Study
from supple_lab.studies.manifest import read_manifest, studies_in


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
    results = load_results(store, manifest.run_specs())
    drawing = study.draw(results, manifest.order)
    about = About(
        study=study.name,
        title=study.title,
        question=study.question,
        scale=manifest.order.scale,
        command=manifest.command,
    )
    return drawing, write_report(out / "report", about, results=results, drawing=drawing)


def default_out(study: Study) -> Path:
    """Where a study's runs go unless told otherwise."""
    return Path("out") / study.name


def _no_study(out: Path) -> str:
    raise StorageError(f"{out} holds no study. Make one: supple run STUDY --out {out}")
