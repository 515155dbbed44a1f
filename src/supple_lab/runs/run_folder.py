"""A run on disk: its spec, its records, its status and its checkpoints. The folder is the truth about the run."""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from supple_lab.atomic_write import StorageError, atomic_write, remove_dead_parts, storage_error
from supple_lab.runs import lease
from supple_lab.runs.checkpoint import DamagedCheckpoint, checkpoint_files, read_checkpoint
from supple_lab.runs.mirror import Mirror
from supple_lab.runs.quarantine import ENDED, LOGS, matches, read_object, set_damaged_aside
from supple_lab.runs.record_log import Record, RecordLog
from supple_lab.runs.spec import RunSpec

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
        self._lease: lease.Lease | None = None

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
        self._lease = lease.acquire(self.path)
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
        if status["state"] == "running" and not lease.is_live(self.path):
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
