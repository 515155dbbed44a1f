"""Load: what a store has of the runs that a study asked for, believed as far as it is what the runs wrote.

A run that ended left the SHA-256 of its logs in its status. What does not match is damaged: it is listed, not averaged.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from supple_lab.results.results import DamagedLog, Results, RunResult, Written, id_of, strays_in
from supple_lab.spec import RunSpec
from supple_lab.store.run_folder import Record, RunFolder, read_object, whole_record
from supple_lab.store.store import Store

FACTS = ("hardware", "precision", "not_captured", "versions", "commit")
NO_FILE = "its records.jsonl cannot be read: something else lies in its place (move it away), or the disk fails."
NO_LABELS: Mapping[str, str] = MappingProxyType({})


def load_results(
    store: Store,
    specs: Iterable[RunSpec],
    *,
    conditions: Mapping[str, str] = NO_LABELS,
    methods: Mapping[str, str] = NO_LABELS,
) -> Results:
    """Read what the store has of each spec, once even where it is named twice.

    conditions: a label by a run's id; methods: a label by a method's name.
    """
    grid = {spec.run_id: spec for spec in specs}
    runs = tuple(
        load_run(store.folder(spec), spec, condition=conditions.get(name, ""), label=methods.get(spec.method.name, ""))
        for name, spec in grid.items()
    )
    return Results(runs, root=store.root, strays=strays_in(store.root, grid))


def load_run(folder: RunFolder, spec: RunSpec, *, condition: str = "", label: str = "") -> RunResult:
    """One run as its folder has it; without records where they cannot be believed."""
    status = folder.status()
    started = status["state"] != "waiting"
    written = read_object(folder.path / "spec.json") if started else {}
    content = content_of(folder.stage_log.path) if started else b""
    records = records_in(content or b"")
    damage = (
        damage_of_status(folder)
        if not started
        else (damage_of_spec(written, spec.run_id) or damage_of_records(status, content, num_records=len(records)))
    )
    return RunResult(
        spec=spec,
        written=None if damage or not written else written,
        # RunFolder.state() reads every file anew; over thousands of finished runs that is most of the time.
        state="damaged" if damage else folder.state() if status["state"] == "running" else status["state"],
        seconds=float(status.get("seconds", 0.0)),
        reason=damage or str(status.get("reason", "")),
        records=() if damage else tuple(records),
        device=str(status.get("device", "")),
        condition=condition,
        label=label,
        facts={name: status[name] for name in FACTS if name in status},
        read_epochs=partial(read_epochs, folder.epoch_log.path, told_digests(status).get(folder.epoch_log.path.name)),
    )


def damage_of_status(folder: RunFolder) -> str:
    """What is wrong with the status of a run that passes for one that never started; empty where nothing is."""
    path, records = folder.path / "status.json", content_of(folder.stage_log.path)
    if records is None:
        return NO_FILE
    if not path.exists():
        return "its status.json is missing, though it has records." if records else ""
    is_known = read_object(path).get("state") == "waiting"
    return "" if is_known else "its status.json cannot be read: it is damaged, or another version of supple wrote it."


def damage_of_spec(written: Written, run_id: str) -> str:
    """What is wrong with the spec in the folder: a folder that was copied to another run's name has the wrong one."""
    return "" if id_of(written) == run_id else "its spec.json is missing, damaged or that of another run."


def damage_of_records(status: dict[str, Any], content: bytes | None, *, num_records: int) -> str:
    """What is wrong with the records, by what the run said of them when it ended."""
    if content is None:
        return NO_FILE
    told = told_digests(status).get("records.jsonl")
    if told is not None and hashlib.sha256(content).hexdigest() != told:
        return "its records.jsonl is not what the run wrote: the SHA-256 differs from the one in status.json."
    if status["state"] == "done" and num_records < status.get("num_records", 1):
        told_number = status.get("num_records", 1)
        return f"its records.jsonl has {num_records} of {told_number} record{'' if told_number == 1 else 's'}."
    return ""


def told_digests(status: dict[str, Any]) -> dict[str, str]:
    """What the run said of its logs when it ended; nothing before."""
    told = status.get("digests")
    return told if isinstance(told, dict) else {}


def content_of(path: Path) -> bytes | None:
    """The file; nothing where there is none; None where something is there that cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError:  # a folder in its place, a file in place of the run's folder, a disk that fails
        return None


def records_in(content: bytes) -> list[Record]:
    """The whole records, up to the first line that is torn or damaged."""
    lines = content.split(b"\n")[:-1]
    try:  # all lines at once: a fifth of the time that they take one by one
        records = json.loads(b"[" + b",".join(lines) + b"]")
    except (ValueError, RecursionError):
        records = [None]
    if len(records) == len(lines) and all(isinstance(record, dict) for record in records):
        return records
    return _records_before_damage(lines)


def _records_before_damage(lines: list[bytes]) -> list[Record]:
    records = []
    for line in lines:
        if (record := whole_record(line)) is None:
            break
        records.append(record)
    return records


def read_epochs(path: Path, told: str | None) -> list[Record]:
    """A run's log of epochs, or DamagedLog where it is not the one that the run told of."""
    content = content_of(path)
    if content is None:
        raise DamagedLog(f"{path.name} cannot be read.")
    if told is not None and hashlib.sha256(content).hexdigest() != told:
        raise DamagedLog(f"{path.name} is not what the run wrote: the SHA-256 differs from the one in status.json.")
    return records_in(content)
