"""A log of records, one JSON object a line. Only its last line can be torn, and only by a kill.

A writer adds each line where its last one ended, so that a second writer of the same run, which there should never be,
writes the same bytes to the same place or is found out.
"""

import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

import torch

from supple_lab.files import StorageError, atomic_write, remove_dead_parts, storage_error
from supple_lab.spec import RunSpec
from supple_lab.store import lock
from supple_lab.store.checkpoint import DamagedCheckpoint, checkpoint_files, read_checkpoint
from supple_lab.store.mirror import Mirror

Record = dict[str, Any]


class RecordLog:
    """Records of one kind, oldest first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size: int | None = None  # bytes up to the last line this writer knows of

    def read(self) -> list[Record]:
        """The whole records, up to the first line that is torn or damaged."""
        records = []
        for line in self._lines():
            if (record := whole_record(line)) is None:
                break
            records.append(record)
        return records

    def append(self, record: Record) -> None:
        """Add one line. It reaches the disk with the next sync: what a kill takes before is computed again."""
        try:
            with open(self.path, "ab" if self._size is None else "r+b") as file:
                if self._size is not None:
                    self._seek_end(file, self._size)
                file.write(line_of(record))
                self._size = file.tell()
        except OSError as error:
            raise storage_error(error, self.path) from error

    def _seek_end(self, file: BinaryIO, size: int) -> None:
        if file.seek(0, os.SEEK_END) < size:
            raise StorageError(f"{self.path} was cut by another process. The same command continues the run.")
        file.seek(size)
        file.truncate()

    def sync(self) -> None:
        """Have the disk hold all that was appended, or a checkpoint could stand on records that a power cut took."""
        if not self.path.exists():
            return
        try:
            with open(self.path, "ab") as file:
                os.fsync(file.fileno())
        except OSError as error:
            raise storage_error(error, self.path) from error

    def keep(self, number: int) -> None:
        """Forget all but the first records: what came after the checkpoint is about to be computed again."""
        content = b"".join(line_of(record) for record in self.read()[:number])
        atomic_write(self.path, content)
        self._size = len(content)

    def digest(self, number: int) -> str:
        """What the first records are, in short: a checkpoint stands on them."""
        return hashlib.sha256(b"\n".join(self._lines()[:number])).hexdigest()

    def _lines(self) -> list[bytes]:
        try:
            return self.path.read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return []


def line_of(record: Record) -> bytes:
    """The record as it stands in the file: without values that are no numbers, which JSON does not know."""
    known = {name: value for name, value in record.items() if not isinstance(value, float) or math.isfinite(value)}
    return json.dumps(known, sort_keys=True, allow_nan=False).encode() + b"\n"


def whole_record(line: bytes) -> Record | None:
    """The record that a line holds, or None."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


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


State = Literal["waiting", "running", "interrupted", "done", "diverged", "failed"]
SETTLED: tuple[State, ...] = ("done", "diverged", "failed")  # ended, well or not
NUMBERS = ("progress", "accuracy", "seconds", "num_records", "updated")  # facts of a status that people compute with


class RunFolder:
    """Reads and writes one run's folder; nothing in it is ever half-written but the last line of a log."""

    def __init__(self, path: Path, mirror: Mirror | None = None) -> None:
        self.path = path
        self.stage_log = RecordLog(path / "records.jsonl")
        self.epoch_log = RecordLog(path / "epochs.jsonl")
        self._mirror = mirror
        self._lease: lock.Lease | None = None

    def create(self, spec: RunSpec) -> None:
        """Make the folder and write the spec, unless they are there."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise storage_error(error, self.path) from error
        if not (self.path / "spec.json").exists():
            atomic_write(self.path / "spec.json", json.dumps(spec.to_dict(), indent=2, sort_keys=True).encode())

    def spec(self) -> RunSpec:
        """The spec the run was made from."""
        path = self.path / "spec.json"
        try:
            spec = RunSpec.from_json(path.read_text())
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise StorageError(f"{path} is damaged ({error}). The command that made the run mends it.") from error
        if spec.run_id != self.path.name:
            raise StorageError(f"{path} is not the spec of run {self.path.name}. The command that made it mends it.")
        return spec

    @contextmanager
    def held(self, spec: RunSpec) -> Iterator[None]:
        """Hold the run against all other processes, or RunIsBusy; on the way in, mend what is damaged or behind."""
        self._lease = lock.acquire(self.path)
        try:
            remove_dead_parts(self.path)
            set_damaged_aside(self.path, spec)
            self.create(spec)
            if self._mirror is not None:
                self._mirror.pull(self.path)
            yield
        finally:
            self._lease.release()
            self._lease = None

    def check_lease(self) -> None:
        """Raise RunIsBusy where the run was taken over: whoever held it must write no further."""
        if self._lease is not None:
            self._lease.check()

    def status(self) -> dict[str, Any]:
        """What was last said of the run; a run that was never started, or whose status is unreadable, is waiting."""
        status = read_object(self.path / "status.json")
        if status.get("state") not in get_args(State):
            return {"state": "waiting"}
        numbers = {name: status[name] for name in NUMBERS if isinstance(status.get(name), int | float)}
        return {name: value for name, value in status.items() if name not in NUMBERS} | numbers

    def state(self) -> State:
        """How the run stands, by its status and by what is there.

        A running run that nobody holds was interrupted; so was, in effect, one that ended and has lost records.
        """
        status = self.status()
        if status["state"] == "running" and not lock.is_live(self.path):
            return "interrupted"
        if status["state"] in ENDED and not all(matches(self.path / name, status) for name in LOGS):
            return "interrupted"
        return status["state"]

    def write_status(self, state: State, **facts: Any) -> None:
        """Say what the run is doing: its state, how far it is, what went wrong."""
        self.check_lease()
        content = {"state": state, **facts, "pid": os.getpid(), "updated": time.time()}
        atomic_write(self.path / "status.json", json.dumps(content, indent=2).encode())

    def copy_out(self) -> None:
        """Have the mirror, if there is one, hold all there is of the run."""
        if self._mirror is not None:
            self._mirror.push(self.path)

    def copy_out_if_possible(self) -> None:
        """Copy out, but go on with the run where the mirror is away: the next checkpoint tries again."""
        try:
            self.copy_out()
        except StorageError as error:
            print(f"note: {error}", file=sys.stderr)

    def records(self) -> list[Record]:
        """What was recorded at the end of each stage, oldest first."""
        return self.stage_log.read()

    def epochs(self) -> list[Record]:
        """What was recorded at the end of each epoch, oldest first."""
        return self.epoch_log.read()

    def latest_checkpoint(self, device: torch.device) -> dict[str, Any] | None:
        """The newest whole checkpoint whose records are there; another is set aside and the one before it is used."""
        for path in reversed(checkpoint_files(self.path)):
            try:
                checkpoint = read_checkpoint(path, device)
            except DamagedCheckpoint:
                checkpoint = None
            if checkpoint is not None and self._holds_records_of(checkpoint):
                return checkpoint
            path.rename(path.with_suffix(".damaged"))
        return None

    def foundation(self, num_records: int, num_epochs: int) -> dict[str, Any]:
        """The records that a checkpoint stands on: how many, and what they are."""
        return {
            "num_records": num_records,
            "num_epochs": num_epochs,
            "records_digest": self.stage_log.digest(num_records),
            "epochs_digest": self.epoch_log.digest(num_epochs),
        }

    def _holds_records_of(self, checkpoint: dict[str, Any]) -> bool:
        there = self.foundation(checkpoint["num_records"], checkpoint["num_epochs"])
        return all(checkpoint.get(name) == value for name, value in there.items())

    def set_aside(self) -> list[Path]:
        """Files that turned out damaged."""
        return sorted(self.path.glob("*.damaged"))
