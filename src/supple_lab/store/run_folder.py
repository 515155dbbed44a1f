"""A run's folder: spec.json, status.json, two logs of records, checkpoints. Only the process with the lock writes it.

Nothing in it is ever half-written but the last line of a log, which a kill can tear.
"""

import hashlib
import json
import math
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from supple_lab.files import (
    SUFFIX,
    Check,
    StorageError,
    WrongContent,
    atomic_write,
    open_regular,
    read_regular,
    remove_parts,
    set_aside,
    unchecked,
    writing,
)
from supple_lab.spec import RunSpec
from supple_lab.store.checkpoint import checkpoint_files, read_checkpoint
from supple_lab.store.lock import RunLock
from supple_lab.store.mirror import Mirror
from supple_lab.store.reading import MAX_LOG, Record, State, read_run, read_status, records_in

# Files that runs write. What else lies in a folder, such as a tracker's, is not ours to judge.
OWN = re.compile(r"(spec|status)\.json|(records|epochs)\.jsonl|checkpoint-\d+\.pt|replay-\d+-\d+\.frames|frames\.bytes")


class RecordLog:
    """Records of one kind, oldest first, one JSON object a line.

    A writer adds each line where its last one ended: a second writer of the same run, which there should never be,
    writes the same bytes to the same place or is found out.
    """

    def __init__(self, path: Path, check: Check = unchecked) -> None:
        self.path = path
        self._check = check
        self._size: int | None = None  # bytes up to the last line this writer knows of
        self._hash = hashlib.sha256()

    def read(self) -> list[Record]:
        """The whole records, up to the first line that is torn or damaged."""
        return records_in(self._content())

    def append(self, record: Record) -> None:
        """Add one line. It reaches the disk with the next sync: what a kill takes before is computed again."""
        line = line_of(record)
        with writing(self.path), open(self.path, "ab" if self._size is None else "r+b") as file:
            self._check()  # with the file open: a process that takes the run over after this replaces it
            if self._size is not None:
                if file.seek(0, os.SEEK_END) < self._size:
                    raise StorageError(f"{self.path} was cut by another process. The same command continues the run.")
                file.seek(self._size)
                file.truncate()
            file.write(line)
            self._size = file.tell()
        self._hash.update(line)

    def sync(self) -> None:
        """Have the disk hold all that was appended, or a checkpoint could stand on records that a power cut took."""
        if self.path.exists():
            with writing(self.path), open(self.path, "ab") as file:
                os.fsync(file.fileno())

    def keep(self, number: int) -> None:
        """Forget all but the first records: what came after the checkpoint is about to be computed again."""
        content = b"".join(line_of(record) for record in self.read()[:number])
        atomic_write(self.path, content, check=self._check)
        self._size, self._hash = len(content), hashlib.sha256(content)

    def digest(self, number: int) -> str:
        """What the first records are, in short: a checkpoint stands on them."""
        return hashlib.sha256(b"\n".join(self._content().split(b"\n")[:-1][:number])).hexdigest()

    @property
    def logged(self) -> tuple[int, str] | None:
        """Size and SHA-256 of what this writer wrote."""
        return None if self._size is None else (self._size, self._hash.hexdigest())

    def _content(self) -> bytes:
        with suppress(WrongContent):
            return read_regular(self.path, limit=MAX_LOG) or b""
        return b""


def line_of(record: Record) -> bytes:
    """The record as it stands in the file: without values that are no numbers, which JSON does not know."""
    known = {name: value for name, value in record.items() if not isinstance(value, float) or math.isfinite(value)}
    return json.dumps(known, sort_keys=True, allow_nan=False).encode() + b"\n"


class RunFolder:
    def __init__(self, path: Path, mirror: Mirror | None = None) -> None:
        self.path = path
        self.stage_log = RecordLog(path / "records.jsonl", self.check_lock)
        self.epoch_log = RecordLog(path / "epochs.jsonl", self.check_lock)
        self._mirror = mirror
        self._lock: RunLock | None = None

    def create(self, spec: RunSpec) -> None:
        """Make the folder and write the spec, unless they are there."""
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        path = self.path / "spec.json"
        if not os.path.lexists(path):
            try:
                atomic_write(path, json.dumps(spec.to_dict(), indent=2, sort_keys=True).encode())
            except StorageError:
                if not os.path.lexists(path):  # else another process wrote it, took the run and removed our part
                    raise

    @contextmanager
    def held(self, spec: RunSpec) -> Iterator[None]:
        """Hold the run against all other processes, or RunIsBusy; on the way in, mend what is damaged or behind."""
        self.create(spec)
        self._lock = RunLock.acquire(self.path)
        try:
            self._mend(spec)
            if self._mirror is not None and self._mirror.pull(self.path):
                self._mend(spec)
            yield
        finally:
            self._lock.release()
            self._lock = None

    def _mend(self, spec: RunSpec) -> None:
        """Rename damaged files to *.damaged. Needs the lock."""
        remove_parts(self.path, older_than=-math.inf)
        for path in self.path.glob("lease-*"):  # of format 1
            with suppress(OSError):
                path.unlink()
        for name in filter(OWN.fullmatch, os.listdir(self.path)):
            try:
                number = open_regular(self.path / name)
            except WrongContent:
                set_aside(self.path / name)
                continue
            if number is not None:
                os.close(number)
        stored = read_run(self.path)
        if stored.error is not None:
            raise stored.error
        for name in stored.wrong:
            set_aside(self.path / name)
        self.create(spec)

    def check_lock(self) -> None:
        """Raise RunIsBusy if the run was taken over: this process must write no further."""
        if self._lock is not None:
            self._lock.check()

    def status(self) -> dict[str, Any]:
        """What was last said of the run; a run that was never started, or whose status is unreadable, is waiting."""
        return read_status(self.path)

    def state(self) -> State:
        """How the run stands, by its status and by what is there.

        A running run that no process holds was interrupted; so was, in effect, one that ended and has lost records.
        """
        return read_run(self.path).state

    def write_status(self, state: State, **facts: Any) -> None:
        told = {log.path.name: log.logged for log in (self.stage_log, self.epoch_log) if log.logged}
        logged = told or self.status().get("logged")
        content = {"run": self.path.name, "state": state, **facts, "pid": os.getpid(), "updated": time.time()}
        if logged and "digests" not in facts:
            content["logged"] = logged
        atomic_write(self.path / "status.json", json.dumps(content, indent=2).encode(), check=self.check_lock)

    def copy_out(self) -> None:
        """Have the mirror, if there is one, hold all there is of the run."""
        if self._mirror is not None:
            self._mirror.push(self.path)

    def copy_out_if_possible(self) -> None:
        """Copy out, but go on with the run if the mirror is away: the next checkpoint tries again."""
        try:
            self.copy_out()
        except StorageError as error:
            print(f"note: {error}", file=sys.stderr)

    def latest_checkpoint(self, device: torch.device) -> dict[str, Any] | None:
        """The newest checkpoint of this run whose records are there; those after it are set aside."""
        for path in reversed(checkpoint_files(self.path)):
            with suppress(WrongContent):
                checkpoint = read_checkpoint(path, device)
                if self._holds_records_of(checkpoint):
                    return checkpoint
            set_aside(path)
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
        try:
            there = self.foundation(checkpoint["num_records"], checkpoint["num_epochs"])
        except (KeyError, TypeError):
            return False
        return all(checkpoint.get(name) == value for name, value in there.items())

    def set_aside(self) -> list[Path]:
        """Files that turned out damaged."""
        return sorted(self.path.glob(f"*{SUFFIX}*"))
