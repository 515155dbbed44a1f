"""Makes a published report again from what it tells of its runs: after a rule has changed, or without withdrawn runs.

    python tools/remake_report.py supervised
    python tools/remake_report.py trainability --without rrelu cbp redo

A method that is left out counts as not run, and its runs are among those that are missing. A report carries no logs of
epochs: where a figure needs them, all figures stay as they are, and of the page the claims alone are made again.
"""

import argparse
import json
import re
import tempfile
from pathlib import Path
from typing import Any

from publish_report import RESULTS, files_of, publish
from store_from_report import store_from_report

from supple_lab import lookup
from supple_lab.commands.report import make_report
from supple_lab.report.figure import Drawing
from supple_lab.report.panel import NO_EPOCHS
from supple_lab.studies.base import Study

NUMBERS = (".json", ".csv", ".tex")
CLAIMS = re.compile(r'<section id="claims">.*?</section>', re.DOTALL)
Json = dict[str, Any]


def main() -> None:
    """Remake the study that the first argument names, where it lies."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("study")
    parser.add_argument("--without", nargs="+", default=(), metavar="METHOD")
    asked = parser.parse_args()
    remake(RESULTS / asked.study, without=tuple(asked.without))


def remake(results: Path, *, without: tuple[str, ...] = ()) -> None:
    """Make the report in the folder again, from its own JSON."""
    study = lookup.find(Study, results.name)()
    report = json.loads((results / f"{study.name}.json").read_bytes())
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        store_from_report(without_methods(report, without), out)
        drawing, _ = make_report(study, out)
        if needs_epochs(drawing):
            update_numbers(out, results)
        else:
            publish(out, study.name, results)


def without_methods(report: Json, names: tuple[str, ...]) -> Json:
    """The report without the runs of these methods."""
    kept = [run for run in report["runs"] if run["method"] not in names]
    ids = {run["id"] for run in kept}
    series = [point for point in report["series"] if point["run"] in ids]
    missing = [run for run in report["missing"] if run["id"] in ids]
    return {**report, "runs": kept, "series": series, "missing": missing}


def needs_epochs(drawing: Drawing) -> bool:
    """Whether a figure would be drawn from logs that are not there."""
    return any(panel.nothing == NO_EPOCHS for figure in drawing.figures for panel in figure.panels)


def update_numbers(out: Path, results: Path) -> None:
    """Take over the numbers, and the claims into the page that is there."""
    for path in files_of(out, results.name):
        if path.suffix in NUMBERS:
            (results / path.name).write_bytes(path.read_bytes())
    new, old = (folder / f"{results.name}.html" for folder in (out / "report", results))
    (claims,) = CLAIMS.findall(new.read_text("utf-8"))
    old.write_text(CLAIMS.sub(lambda _: claims, old.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
