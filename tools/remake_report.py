"""Makes published reports again from their own runs, for instance after a rule has changed.

    python tools/remake_report.py supervised trainability

Runs that the study would not order today, because their method has changed since, count as not run. A report has no
logs of epochs. If a figure needs them, all figures stay as they are.
"""

import re
import sys
import tempfile
from pathlib import Path

from publish_report import LINK_TO_MARKDOWN, RESULTS, files_of, publish
from store_from_report import read_report, store_from_reports

from supple_lab import registry
from supple_lab.commands.report import make_report
from supple_lab.paper.study import Study
from supple_lab.report.figure import NO_EPOCHS, StudyReport

NUMBERS = (".json", ".csv", ".tex")
FIGURES = re.compile(r"<figure id=.*</figure>", re.DOTALL)
DATA = re.compile(r'<script type="application/json" id="data">.*?</script>', re.DOTALL)  # of the figures
NO_LOGS = re.compile(r"[^<>]*epochs\.jsonl is not there[^<]*")
INSTEAD = "The figures were drawn when the runs were made, from logs of epochs that are not part of this report."


def main() -> None:
    """Remake the studies that the arguments name."""
    for name in sys.argv[1:]:
        remake(RESULTS / name)


def remake(results: Path) -> None:
    """Make the report in the folder again, from its own JSON."""
    study = registry.find(Study, results.name)()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        store_from_reports([read_report(results / f"{study.name}.json")], out)
        drawing, _ = make_report(study, out)
        if needs_epochs(drawing):
            update_numbers(out, results)
        else:
            publish(out, study.name, results)


def needs_epochs(drawing: StudyReport) -> bool:
    """Whether a figure would be drawn from logs that are not there."""
    return any(panel.nothing == NO_EPOCHS for figure in drawing.figures for panel in figure.panels)


def update_numbers(out: Path, results: Path) -> None:
    """Take over the numbers and the page, but for its figures."""
    name = f"{results.name}.html"
    page, old = ((folder / name).read_text("utf-8") for folder in (out / "report", results))
    for part in (FIGURES, DATA):
        (drawn,) = part.findall(old)
        page = part.sub(lambda _, drawn=drawn: drawn, page)
    for path in files_of(out, results.name):
        if path.suffix in NUMBERS:
            (results / path.name).write_bytes(path.read_bytes())
    (results / name).write_text(LINK_TO_MARKDOWN.sub("", NO_LOGS.sub(INSTEAD, page)), "utf-8")


if __name__ == "__main__":
    main()
