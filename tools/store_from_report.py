"""Makes a store of reports' STUDY.json: the runs that ended, and the commands that ordered them. Add to it as to any.

    python tools/store_from_report.py docs/results/continual_full/continual_full.json out/more
    supple run continual_full --scale paper --device cuda --only CNN --seeds 4 --out out/more

The second command runs what is missing, here a fourth seed, and reports all. A report has its values to six digits, and
so does the store; logs of epochs come from the folder epochs beside the file, if it is there. Runs that the commands
would not order today, because a method or a study has changed since, are left out. The file of a --plugin must lie
where the report's commands name it.
"""

import json
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from supple_lab import registry
from supple_lab.cli import command_of
from supple_lab.commands.base import BAD_USAGE, BadUsage, Command
from supple_lab.commands.run import Run
from supple_lab.commands.terminal import advising, refusals_as_sentences
from supple_lab.files import StorageError
from supple_lab.paper.manifest import add_to_manifest
from supple_lab.paper.study import Study, StudyOptions
from supple_lab.report.remarks import counted
from supple_lab.results.load import FACTS
from supple_lab.spec import RunSpec
from supple_lab.store.reading import ENDED, Record, digests
from supple_lab.store.run_folder import line_of
from supple_lab.store.store import Store

USAGE = "usage: python tools/store_from_report.py STUDY.json... FOLDER, the ones there already and the last not yet."
# Of a report, what a store is made of.
PARTS = {"study": str, "command": str, "runs": list, "series": list, "missing": list}
Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Ordered:
    """What a command asked of a study."""

    study: str
    command: str
    order: StudyOptions
    specs: list[RunSpec]


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A run that ended, as the report tells of it."""

    spec: RunSpec
    told: Json
    records: list[Record]
    epochs: bytes = b""


def main() -> None:
    """Read the files that the arguments name, fill the folder that the last one does; or say why not."""
    try:
        if len(sys.argv) < 3:
            raise BadUsage(USAGE)
        *paths, out = map(Path, sys.argv[1:])
        with refusals_as_sentences(), advising("Choose a folder that you may write to."):
            reports = [read_report(path) for path in paths]
            num_runs = store_from_reports(reports, out)
            print(f"{counted(num_runs)} in {out}{words_of_withdrawn(reports, num_runs)}")
    except (StorageError, BadUsage, registry.UnknownName) as error:
        print(error, file=sys.stderr)
        sys.exit(BAD_USAGE)


def read_report(path: Path) -> Json:
    """The report, or StorageError where the file holds none."""
    try:
        report = json.loads(path.read_bytes())
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path} is no JSON, or not the whole of it: {error}.") from error
    if not isinstance(report, dict) or not all(isinstance(report.get(name), kind) for name, kind in PARTS.items()):
        raise StorageError(f"{path} is no report of a study: that is an object with {', '.join(PARTS)}.")
    return report | {"epochs": {log.stem: log.read_bytes() for log in path.parent.glob("epochs/*.jsonl")}}


def words_of_withdrawn(reports: Sequence[Json], num_runs: int) -> str:
    """How many runs of the reports are not in the store, if any."""
    withdrawn = len({run["id"] for report in reports for run in report["runs"] if run["status"] in ENDED}) - num_runs
    return f"; {withdrawn} left out, which are no runs of their studies any more" if withdrawn else ""


def store_from_reports(reports: Sequence[Json], out: Path) -> int:
    """How many runs the store has after it. All is read before anything is written, and nothing half-made stays."""
    if out.exists():
        raise StorageError(f"{out} is there already: choose a folder that is not.")
    try:
        orders = [
            ordered_by(command, report["study"]) for report in reports for command in commands_in(report["command"])
        ]
        specs = {spec.run_id: spec for one in orders for spec in one.specs}
        runs = {run.spec.run_id: run for report in reports for run in ended_runs(report, specs)}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StorageError(f"the report is not as supple writes it: {type(error).__name__}: {error}.") from error
    try:
        store = Store.create(out)
        for run in runs.values():
            write_run(store, run)
        for one in orders:
            add_order(out, one)
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        raise
    return len(runs)


def commands_in(joined: str) -> list[str]:
    """The commands that " && " joins: an argument that holds it is in quotes, which a cut would leave open."""
    commands: list[str] = []
    for part in joined.split(" && "):
        if commands and not is_whole(commands[-1]):
            commands[-1] += f" && {part}"
        else:
            commands.append(part)
    return commands


def is_whole(command: str) -> bool:
    """Whether every quote is closed."""
    try:
        shlex.split(command)
    except ValueError:
        return False
    return True


def ordered_by(command: str, study: str) -> Ordered:
    """The command's order. From here on, what the plugin that it names defines is found."""
    try:
        run = read_command(command)
        if not isinstance(run, Run):
            raise StorageError("that is no `supple run` of this version's.")
        order = run.order()
        return Ordered(study=study, command=command, order=order, specs=registry.find(Study, study)().specs(order))
    except (StorageError, BadUsage, registry.UnknownName) as error:
        raise StorageError(f"cannot order again what the report's command did ({command}): {error}") from error


def read_command(command: str) -> Command | None:
    """The command; None where the parser refuses it, whose words would be about a command that nobody typed."""
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            return command_of(shlex.split(command)[1:])
    except SystemExit:
        return None


def ended_runs(report: Json, specs: Mapping[str, RunSpec]) -> list[Ended]:
    """The report's runs that ended, of those whose specs are given by their ids."""
    records = records_by_run(report["series"])
    told = {run["id"]: run for run in report["missing"]}  # of those that diverged, why
    return [
        Ended(
            spec=specs[run["id"]],
            told=told.get(run["id"], {}) | run,
            records=list(records.get(run["id"], {}).values()),
            epochs=report.get("epochs", {}).get(run["id"], b""),
        )
        for run in report["runs"]
        if run["status"] in ENDED and run["id"] in specs
    ]


def records_by_run(series: list[Json]) -> dict[str, dict[int, Record]]:
    """What each run recorded at each stage."""
    runs: dict[str, dict[int, Record]] = {}
    for point in series:
        record = runs.setdefault(point["run"], {}).setdefault(point["stage"], {"stage": point["stage"]})
        if point["value"] is not None:
            record[point["metric"]] = point["value"]
    return runs


def add_order(out: Path, one: Ordered) -> None:
    """Note in a store what a command asked for."""
    add_to_manifest(out, one.study, order=one.order, command=one.command, specs=one.specs)


def write_run(store: Store, run: Ended) -> None:
    """The folder of a run that ended, as the run would have left it."""
    folder, state = store.folder(run.spec), run.told["status"]
    folder.create(run.spec)
    folder.stage_log.path.write_bytes(b"".join(map(line_of, run.records)))
    if run.epochs:
        folder.epoch_log.path.write_bytes(run.epochs)
    facts = {name: run.told[name] for name in (*FACTS, "seconds", "device", "reason") if name in run.told}
    if state == "done":
        facts["progress"] = 1.0
    folder.write_status(state, **facts, num_records=len(run.records), digests=digests(folder.path))


if __name__ == "__main__":
    main()
