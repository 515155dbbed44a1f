"""Reading a run: what its folder holds, believed as far as it is what the run wrote.

A run's id is the hash of spec.json. The status carries the id and the SHA-256 of the logs, or of what they held when it
was written; a checkpoint carries both, too. So every file is known to be this run's.
"""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, get_args

from supple_lab.files import StorageError, WrongContent, read_regular
from supple_lab.store.lock import is_held

Json = dict[str, Any]
Record = dict[str, Any]
State = Literal["waiting", "running", "interrupted", "done", "diverged", "failed"]

SETTLED: tuple[State, ...] = ("done", "diverged", "failed")  # ended, well or not
ENDED: tuple[State, ...] = ("done", "diverged")  # their records are results, and must be those that the status counts
LOGS = ("records.jsonl", "epochs.jsonl")
NUMBERS = ("progress", "accuracy", "seconds", "num_records", "updated")  # facts of a status that people compute with
MAX_NUMBER = 1e15  # of these: far more than any, and whatever is computed with it is a number, too
MAX_OBJECT, MAX_LOG = 2**24, 2**30  # bytes; the paper's longest log is 4 MB
ALTERED = "is not what the run wrote: the SHA-256 differs from the one in status.json."
WAITING: Json = {"state": "waiting"}
CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
NUM_DIGITS = 16  # of a run's id, as RunSpec has it


@dataclass(frozen=True)
class StoredRun:
    id: str
    spec: Json  # as it was written; empty if it is not this run's
    status: Json
    state: State
    wrong: dict[str, str] = field(default_factory=dict)  # files that are not what the run wrote, and how
    error: StorageError | None = None  # what kept a file from being read: it says nothing about the file
    log: bytes = b""  # of stages, as far as it is believed

    @cached_property
    def records(self) -> tuple[Record, ...]:
        return tuple(records_in(self.log))

    @property
    def damage(self) -> str:
        """Why its records count for nothing, in a sentence; empty if nothing is wrong."""
        if self.error is not None:
            return str(self.error)
        checked = ("status.json", LOGS[0]) if self.status["state"] == "waiting" else ("spec.json", LOGS[0])
        return next((f"its {name} {self.wrong[name]}" for name in checked if name in self.wrong), "")

    @property
    def method(self) -> str:
        return str(self.spec.get("method", {}).get("kind", ""))

    @property
    def scenario(self) -> str:
        """The scenario's name; for a problem without one, the problem's own."""
        problem = self.spec.get("problem", {})
        return str(problem.get("scenario", problem).get("kind", ""))

    @property
    def dataset(self) -> str:
        problem = self.spec.get("problem", {})
        return _name(problem.get("dataset") or problem.get("game") or {})

    @property
    def seed(self) -> int:
        return int(self.spec.get("seed", 0))

    @property
    def progress(self) -> float:
        return float(self.status.get("progress", 0.0))

    @property
    def seconds(self) -> float:
        return float(self.status.get("seconds", 0.0))

    @property
    def reason(self) -> str:
        """Why it failed or diverged, or what is damaged."""
        return self.damage or str(self.status.get("reason", ""))

    @property
    def seconds_left(self) -> float | None:
        """At the rate so far; None if there is no telling."""
        under_way = self.state in ("running", "interrupted") and self.progress > 0
        return self.seconds * (1 - self.progress) / self.progress if under_way else None


def read_run(folder: Path) -> StoredRun:
    """The run in that folder, verified. Whatever lies there, it raises nothing and never waits."""
    wrong: dict[str, str] = {}
    place, run = str(folder), folder.name  # pathlib would take a quarter of the time

    def believed(name: str, read: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return read()
        except WrongContent as error:
            wrong[name] = str(error)
            return otherwise

    try:
        spec = believed("spec.json", lambda: _read_spec(place, run), {})
        status = believed("status.json", lambda: _read_status(place, run), WAITING)
        log, _ = (believed(name, partial(_read_log, place, name, status), b"") for name in LOGS)
        state: State = status["state"]
        is_dead = state == "running" and not is_held(folder)
    except StorageError as error:
        return StoredRun(run, {}, WAITING, "waiting", {}, error)
    if status is WAITING and log and "status.json" not in wrong:
        wrong["status.json"] = "is missing, though it has records."
    needed = ("spec.json", *LOGS) if state in ENDED else ("spec.json",) if state in SETTLED else ()
    if is_dead or any(name in wrong for name in needed):
        state = "interrupted"  # to be mended, or executed again
    return StoredRun(run, spec, status, state, wrong, None, log)


def read_status(folder: Path) -> Json:
    """What was last said of the run; a run that was never started, or whose status is not its own, is waiting."""
    try:
        return _read_status(str(folder), folder.name)
    except (StorageError, WrongContent):
        return WAITING


def read_epochs(folder: Path, status: Json) -> list[Record]:
    """The run's log of epochs, or WrongContent."""
    try:
        return records_in(_read_log(str(folder), LOGS[1], status))
    except WrongContent as error:
        raise WrongContent(f"{LOGS[1]} {error}") from error


def id_of(spec: Json) -> str:
    """The id of the run: the hash of the spec's canonical JSON. Knows nothing of methods: any version can tell."""
    return _sha256(CANONICAL.encode(spec).encode())[:NUM_DIGITS]


def digest(path: Path) -> str:
    """SHA-256 of the file; that of nothing if there is none."""
    return _sha256(read_regular(path, limit=MAX_LOG) or b"")


def digests(folder: Path) -> dict[str, str]:
    return {name: digest(folder / name) for name in LOGS}


def records_in(content: bytes) -> list[Record]:
    """The whole records, up to the first line that is torn or damaged."""
    lines = content.split(b"\n")[:-1]
    try:  # all lines at once: a fifth of the time that they take one by one
        records = json.loads(b"[" + b",".join(lines) + b"]")
    except (ValueError, RecursionError):
        records = [None]
    if len(records) == len(lines) and all(isinstance(record, dict) for record in records):
        return records
    records = []
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            break
        if not isinstance(record, dict):
            break
        records.append(record)
    return records


def _object(path: Path | str) -> Json:
    content = read_regular(path, limit=MAX_OBJECT)
    try:
        found = {} if content is None else json.loads(content)
    except (ValueError, RecursionError) as error:
        raise WrongContent("is no JSON.") from error
    if not isinstance(found, dict):
        raise WrongContent("is no JSON object.")
    return found


def _read_spec(folder: str, run: str) -> Json:
    with suppress(WrongContent, RecursionError):
        spec = _object(f"{folder}/spec.json")
        if id_of(spec) == run:
            return spec
    raise WrongContent("is missing, damaged or that of another run.")


def _read_status(folder: str, run: str) -> Json:
    status = {"state": None}
    with suppress(WrongContent):
        status = _object(f"{folder}/status.json")
    if not status:
        return WAITING
    if status.get("state") not in get_args(State):
        raise WrongContent("cannot be read: it is damaged, or another version of supple wrote it.")
    if status.get("run", run) != run:  # stores of format 1 do not say
        raise WrongContent("is that of another run.")
    for name in NUMBERS:
        if not isinstance(value := status.get(name), int | float) or not -MAX_NUMBER <= value <= MAX_NUMBER:
            status.pop(name, None)
    notes = status.pop("notes", None)
    return {**status, "notes": [str(note) for note in notes]} if notes and isinstance(notes, list) else status


def _read_log(folder: str, name: str, status: Json) -> bytes:
    """The log as far as it is believed, or WrongContent."""
    content = read_regular(f"{folder}/{name}", limit=MAX_LOG) or b""
    told = status.get("digests")
    if isinstance(told, dict):
        if _sha256(content) != told.get(name):
            raise WrongContent(ALTERED)
        return content
    num_records = len(records_in(content))
    if status["state"] in ENDED:  # by a version that told no digests; a run may diverge before it records anything
        number = status.get("num_records", 1 if status["state"] == "done" else 0)
        if name == LOGS[0] and num_records < number:
            raise WrongContent(f"has {num_records} of {number} record{'' if number == 1 else 's'}.")
        return content
    if num_records != content.count(b"\n"):
        raise WrongContent("is damaged: not all of its lines are records.")
    if status is WAITING:
        return content
    try:  # of a run under way, what it had written when it last wrote its status; a power cut may take some of it
        size, digest_then = status["logged"][name]
        then = content[:size]
    except (TypeError, KeyError, ValueError):  # nothing was said
        return b""
    if len(then) != size:
        return b""
    if _sha256(then) != digest_then:
        raise WrongContent(ALTERED)
    return then


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _name(part: Json) -> str:
    """Of a dataset or a game, with that within it: a slice of another dataset, a game with other rewards."""
    name = str(part.get("title") or part.get("kind", ""))
    if "of" in part:
        return f"{name} of {_name(part['of'])}"
    return f"{name} {_name(part['game'])}" if "game" in part else name
