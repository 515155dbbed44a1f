"""A run on disk: its spec, its records, its status and its checkpoints. The folder is the truth about the run."""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from supple_lab.atomic_write import StorageError, atomic_write, storage_error
from supple_lab.runs.checkpoint import DamagedCheckpoint, checkpoint_files, read_checkpoint
from supple_lab.runs.spec import RunSpec

State = Literal["waiting", "running", "interrupted", "done", "diverged", "failed"]
Record = dict[str, Any]
NUMBERS = ("progress", "accuracy", "seconds", "num_records", "updated")  # facts of a status that people compute with


class RunIsBusy(Exception):
    """Another process is at work on this run."""


def whole_record(line: bytes) -> Record | None:
    """The record that a line holds, or None."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


class RunFolder:
    """Reads and writes one run's folder; nothing in it is ever half-written but records.jsonl's last line."""

    def __init__(self, path: Path) -> None:
        self.path = path

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
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise StorageError(f"{path} is damaged ({error}). Delete the folder and run again.") from error
        if spec.run_id != self.path.name:
            raise StorageError(f"{path} is not the spec of run {self.path.name}. Delete the folder and run again.")
        return spec

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run against other processes of this machine; a killed holder lets go by itself."""
        with open(self.path / "lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise RunIsBusy(f"run {self.path.name} is being worked on by another process.") from error
            yield

    def status(self) -> dict[str, Any]:
        """What was last said of the run; a run that was never started, or whose status is unreadable, is waiting."""
        try:
            status = json.loads((self.path / "status.json").read_bytes())
        except (OSError, ValueError):
            return {"state": "waiting"}
        if not isinstance(status, dict) or status.get("state") not in get_args(State):
            return {"state": "waiting"}
        numbers = {name: status[name] for name in NUMBERS if isinstance(status.get(name), int | float)}
        return {name: value for name, value in status.items() if name not in NUMBERS} | numbers

    def state(self) -> State:
        """How the run stands, by its status and by what is there.

        A running run that nobody holds was interrupted; so was, in effect, a done one that has lost records.
        """
        status = self.status()
        if status["state"] == "running" and not self._is_held():
            return "interrupted"
        if status["state"] == "done" and len(self.records()) < status.get("num_records", 1):
            return "interrupted"
        return status["state"]

    def _is_held(self) -> bool:
        try:
            with self.lock():
                return False
        except RunIsBusy:
            return True

    def write_status(self, state: State, **facts: Any) -> None:
        """Say what the run is doing: its state, how far it is, what went wrong."""
        content = {"state": state, **facts, "pid": os.getpid(), "updated": time.time()}
        atomic_write(self.path / "status.json", json.dumps(content, indent=2).encode())

    def records(self) -> list[Record]:
        """The whole records, oldest first, up to the first line that is torn or damaged."""
        try:
            lines = (self.path / "records.jsonl").read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        records = []
        for line in lines[:-1]:
            if (record := whole_record(line)) is None:
                break
            records.append(record)
        return records

    def append_record(self, record: Record) -> None:
        """Add one line."""
        try:
            with open(self.path / "records.jsonl", "ab") as file:
                file.write(json.dumps(record, sort_keys=True).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())  # or a checkpoint could stand on records that a power cut took
        except OSError as error:
            raise storage_error(error, self.path / "records.jsonl") from error

    def keep_records(self, number: int) -> None:
        """Forget all but the first records: what came after the checkpoint is about to be computed again."""
        kept = self.records()[:number]
        atomic_write(
            self.path / "records.jsonl", b"".join(json.dumps(r, sort_keys=True).encode() + b"\n" for r in kept)
        )

    def latest_checkpoint(self, device: torch.device) -> dict[str, Any] | None:
        """The newest whole checkpoint whose records are there; another is set aside and the one before it is used."""
        for path in reversed(checkpoint_files(self.path)):
            try:
                checkpoint = read_checkpoint(path, device)
            except DamagedCheckpoint:
                checkpoint = None
            if checkpoint is not None and checkpoint["num_records"] <= len(self.records()):
                return checkpoint
            path.rename(path.with_suffix(".damaged"))
        return None

    def set_aside(self) -> list[Path]:
        """Checkpoints that turned out damaged."""
        return sorted(self.path.glob("*.damaged"))
