"""Makes a store of a report's STUDY.json: the runs that ended, and the commands that ordered them. Add to it as to any.

    python tools/store_from_report.py docs/results/continual_full/continual_full.json out/more
    supple run continual_full --scale paper --device cuda --only CNN --seeds 4 --out out/more

The second command runs what is missing, here a fourth seed, and reports all. A report has its values to six digits and
no logs of epochs, and so does the store.
"""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

from supple_lab import lookup
from supple_lab.cli import command_of
from supple_lab.commands.run import Run
from supple_lab.report.load import FACTS
from supple_lab.runs.quarantine import ENDED, digests
from supple_lab.runs.record_log import Record, line_of
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.store import Store
from supple_lab.studies.base import Study
from supple_lab.studies.manifest import add_to_manifest

Json = dict[str, Any]


def main() -> None:
    """Read the file that the first argument names, fill the folder that the second does."""
    report, out = Path(sys.argv[1]), Path(sys.argv[2])
    if out.exists():
        sys.exit(f"{out} is there already: choose a folder that is not.")
    print(f"{store_from_report(json.loads(report.read_bytes()), out)} runs in {out}")


def store_from_report(report: Json, out: Path) -> int:
    """How many runs the store has after it."""
    store, records = Store.create(out), records_by_run(report["series"])
    ended = [run for run in report["runs"] if run["status"] in ENDED]
    for run in ended:
        write_run(store, run, list(records.get(run["id"], {}).values()))
    for command in report["command"].split(" && "):
        order_again(store.root, report["study"], command)
    return len(ended)


def records_by_run(series: list[Json]) -> dict[str, dict[int, Record]]:
    """What each run recorded at each stage."""
    runs: dict[str, dict[int, Record]] = {}
    for point in series:
        record = runs.setdefault(point["run"], {}).setdefault(point["stage"], {"stage": point["stage"]})
        if point["value"] is not None:
            record[point["metric"]] = point["value"]
    return runs


def write_run(store: Store, run: Json, records: list[Record]) -> None:
    """The folder of a run that ended, as the run would have left it."""
    spec = RunSpec.from_json(json.dumps(run["spec"]))
    if spec.run_id != run["id"]:
        sys.exit(f"{run['id']} has another id here, {spec.run_id}: another version of supple made the report.")
    folder = store.folder(spec)
    folder.create(spec)
    folder.stage_log.path.write_bytes(b"".join(map(line_of, records)))
    facts = {name: run[name] for name in (*FACTS, "seconds", "device") if name in run}
    folder.write_status(run["status"], **facts, num_records=len(records), digests=digests(folder.path))


def order_again(out: Path, study: str, command: str) -> None:
    """Note the order that the command gave."""
    run = command_of(shlex.split(command)[1:])
    assert isinstance(run, Run), "only `supple run` orders a study"
    order = run.order()
    add_to_manifest(out, study, order=order, command=command, specs=lookup.find(Study, study)().specs(order))


if __name__ == "__main__":
    main()
