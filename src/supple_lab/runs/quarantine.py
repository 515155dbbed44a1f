"""Quarantine: files of a run that are not what was written are set aside as *.damaged, and what they held is redone."""

import hashlib
import json
from pathlib import Path
from typing import Any

from supple_lab.runs.record_log import RecordLog
from supple_lab.runs.spec import RunSpec

LOGS = ("records.jsonl", "epochs.jsonl")
ENDED = ("done", "diverged")  # states whose records are results, and must be those that the status tells of
SUFFIX = ".damaged"


def set_damaged_aside(folder: Path, spec: RunSpec) -> None:
    """Look at every small file of the run and move those aside that are garbled. Only for whoever holds the run."""
    if not is_spec_of(folder / "spec.json", spec.run_id):
        set_aside(folder / "spec.json")
    if not is_object(folder / "status.json"):
        set_aside(folder / "status.json")
    status = read_object(folder / "status.json")
    for name in LOGS:
        if not is_log(folder / name) or (status.get("state") in ENDED and not matches(folder / name, status)):
            set_aside(folder / name)


def set_aside(path: Path) -> None:
    """Move a file out of the way, if it is there, under a name that people find."""
    if path.exists():
        path.rename(path.with_name(path.name + SUFFIX))


def digests(folder: Path) -> dict[str, str]:
    """What the logs of a finished run hold, in short."""
    return {name: digest(folder / name) for name in LOGS}


def digest(path: Path) -> str:
    """SHA-256 of the file; that of nothing where there is none."""
    return hashlib.sha256(path.read_bytes() if path.exists() else b"").hexdigest()


def matches(path: Path, status: dict[str, Any]) -> bool:
    """Whether the log is the one that the status of a finished run tells of."""
    told = status.get("digests")
    if path.is_dir():
        return False
    if isinstance(told, dict):
        return digest(path) == told.get(path.name)
    at_least = 1 if status.get("state") == "done" else 0  # a run may diverge before it records anything
    return path.name != LOGS[0] or len(RecordLog(path).read()) >= status.get("num_records", at_least)


def is_spec_of(path: Path, run_id: str) -> bool:
    """Whether the file holds the spec of that run; knows nothing of methods, so that any version can tell."""
    canonical = json.dumps(read_object(path), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[: len(run_id)] == run_id


def is_log(path: Path) -> bool:
    """Whether every line but a torn last one is a record; no log at all is one without lines."""
    return not path.exists() or (path.is_file() and path.read_bytes().count(b"\n") == len(RecordLog(path).read()))


def is_object(path: Path) -> bool:
    """Whether the file holds a JSON object; no file at all will do."""
    return not path.exists() or bool(read_object(path))


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file; an empty one where there is none."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
