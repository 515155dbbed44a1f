"""Adds runs to a published report, and puts what the documentation shows of it into docs/results.

    python tools/publish_report.py continual_full out/more

The report is made of the runs that docs/results has of the study and of those that ended in the folders; a run of both
is the folder's. Runs that are none of the study's any more drop out; without a folder this is all that changes. All
files of the report are published but tables in Markdown, which would be pages. So are the measurements that a study
without runs rests on, and the epochs of the last stage of runs with one stage or two (a warm start), whose curves they
are. What rests on reports comes next: docs/making/verdict_table.py, docs/making/draw.py verdicts,
tools/register_rules.py, and PYTHONPATH=tests python tools/golden.py --claims.
"""

import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from store_from_report import add_order, ordered_by, read_report, store_from_reports
from supple_lab import registry
from supple_lab.commands.base import BAD_USAGE, BadUsage
from supple_lab.commands.report import make_report
from supple_lab.commands.terminal import advising, refusals_as_sentences
from supple_lab.files import StorageError
from supple_lab.paper.manifest import read_manifest, studies_in
from supple_lab.paper.study import Study
from supple_lab.store.reading import ENDED, LOGS
from supple_lab.store.run_folder import line_of
from supple_lab.store.store import Store

RESULTS = Path(__file__).parent.parent / "docs/results"
USAGE = "usage: python tools/publish_report.py STUDY [FOLDER...], a study and the folders of its new runs."
LINK_TO_MARKDOWN = re.compile(r'<a href="\w+\.md">Markdown</a>, ')


def main() -> None:
    """Publish the study that the first argument names with the runs of the stores that the others do."""
    try:
        if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
            raise BadUsage(USAGE)
        study, folders = sys.argv[1], [Path(name) for name in sys.argv[2:]]
        with (
            refusals_as_sentences(),
            advising("Choose a folder that you may write to."),
            tempfile.TemporaryDirectory() as made,
        ):
            print(merge(study, folders, results=RESULTS / study, out=Path(made) / "out"))
            publish(Path(made) / "out", study, RESULTS / study)
    except (StorageError, BadUsage, registry.UnknownName) as error:
        print(error, file=sys.stderr)
        sys.exit(BAD_USAGE)


def merge(study: str, folders: Sequence[Path], *, results: Path, out: Path) -> str:
    """Report in `out` on what is published and on the folders' runs; what changed, in words."""
    before = results / f"{study}.json"
    known: set[str] = set()
    if before.exists():
        report = read_report(before)
        known = {run["id"] for run in report["runs"] if run["status"] in ENDED}
        store_from_reports([report], out)
    store = Store.create(out)
    bring(study, results, out)
    for folder in folders:
        adopt(study, folder, store)
    make_report(registry.find(Study, study)(), out)
    there = {folder.path.name for folder in store.folders()}
    return f"{study}: {len(there)} runs, {len(there - known)} of them new; {len(known - there)} dropped out"


def adopt(study: str, folder: Path, store: Store) -> None:
    """Add the folder's orders of the study, and its runs that ended."""
    source = Store.open(folder)
    bring(study, folder, store.root)
    for command in read_manifest(folder, study).commands:
        add_order(store.root, ordered_by(command, study))
    for spec in registry.find(Study, study)().specs(read_manifest(store.root, study).order):
        run, own = source.folder(spec), store.folder(spec)
        if run.state() in ENDED:
            own.create(spec)
            for name in (*LOGS, "status.json"):
                (own.path / name).unlink(missing_ok=True)  # of the published run, which may lack a log of epochs
                if (run.path / name).exists():
                    shutil.copyfile(run.path / name, own.path / name)


def bring(study: str, source: Path, destination: Path) -> None:
    """Copy the measurements that the study reads besides runs, if they are there."""
    for name in registry.find(Study, study).measured:
        if (source / name).exists():
            shutil.copyfile(source / name, destination / name)


def publish(out: Path, study: str, results: Path) -> None:
    """Copy the report's files; the page names only those that come along."""
    results.mkdir(exist_ok=True)
    bring(study, out, results)
    for path in files_of(out, study):
        shutil.copyfile(path, results / path.name)
    shutil.rmtree(results / "epochs", ignore_errors=True)  # those of runs that stay are in out
    for folder in Store.open(out).folders():
        last = len(folder.stage_log.read()) - 1
        if last in (0, 1) and (epochs := [one for one in folder.epoch_log.read() if one["stage"] == last]):
            (results / "epochs").mkdir(exist_ok=True)
            (results / "epochs" / f"{folder.path.name}.jsonl").write_bytes(b"".join(map(line_of, epochs)))
    page = results / f"{study}.html"
    page.write_text(LINK_TO_MARKDOWN.sub("", page.read_text("utf-8")), "utf-8")


def files_of(out: Path, study: str) -> list[Path]:
    """The study's own files: not those of another whose name begins alike (trainability_metrics)."""
    others = tuple(name for name in studies_in(out) if name.startswith(f"{study}_"))
    found = (out / "report").glob(f"{study}*")
    return sorted(path for path in found if path.suffix != ".md" and not path.name.startswith(others))


if __name__ == "__main__":
    main()
