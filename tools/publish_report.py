"""Puts a report where the documentation shows it: all of its files but tables in Markdown, which would be pages.

supple report out/more
python tools/publish_report.py out/more continual_full
"""

import re
import shutil
import sys
from pathlib import Path

from supple_lab.commands.base import BAD_USAGE
from supple_lab.studies.manifest import studies_in

RESULTS = Path(__file__).parent.parent / "docs/results"
USAGE = "usage: python tools/publish_report.py FOLDER STUDY, the folder of the runs and a study that is reported there."
LINK_TO_MARKDOWN = re.compile(r'<a href="\w+\.md">Markdown</a>, ')


def main() -> None:
    """Take the study that the second argument names from the store that the first does."""
    if len(sys.argv) != 3:
        print(USAGE, file=sys.stderr)
        sys.exit(BAD_USAGE)
    out, study = Path(sys.argv[1]), sys.argv[2]
    if not (out / "report" / f"{study}.html").exists():
        print(f"{out} has no report of {study}: supple report {study} --out {out}", file=sys.stderr)
        sys.exit(BAD_USAGE)
    publish(out, study, RESULTS / study)


def publish(out: Path, study: str, results: Path) -> None:
    """Copy the report's files; the page names only those that come along."""
    results.mkdir(exist_ok=True)
    for path in files_of(out, study):
        shutil.copyfile(path, results / path.name)
    page = results / f"{study}.html"
    page.write_text(LINK_TO_MARKDOWN.sub("", page.read_text("utf-8")), "utf-8")


def files_of(out: Path, study: str) -> list[Path]:
    """The study's own files: not those of another whose name begins alike (trainability_metrics)."""
    others = tuple(name for name in studies_in(out) if name.startswith(f"{study}_"))
    found = (out / "report").glob(f"{study}*")
    return sorted(path for path in found if path.suffix != ".md" and not path.name.startswith(others))


if __name__ == "__main__":
    main()
