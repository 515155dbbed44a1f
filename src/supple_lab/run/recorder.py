"""Recording a run: its journal (records, progress, checkpoints), and trackers, programs that are shown the records."""

import json
import os
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch

from supple_lab import registry
from supple_lab.errors import ENDING, Interrupted, Terminated, UserError
from supple_lab.files import StorageError
from supple_lab.store.checkpoint import UnusableCheckpoint, write_checkpoint
from supple_lab.store.reading import Record, read_run
from supple_lab.store.run_folder import RunFolder

Kind = Literal["stage", "epoch"]


class TrackerMissing(UserError):
    """The tracker cannot be used here; the message says what to install."""


class Tracker(ABC):
    """Receives each record of one run once, from the first on.

    A run that is continued gets a new tracker, which receives again what the run still stands on: what an earlier one
    left of the run is out of date, and the new one begins by replacing it.
    """

    name: ClassVar[str]

    @abstractmethod
    def __init__(self, folder: Path, spec: Mapping[str, Any]) -> None:
        """Begin for the run of that spec; files of the tracker's own go into a folder of its own below."""

    @classmethod  # noqa: B027
    def check_installed(cls) -> None:
        """Raise TrackerMissing if a package that the tracker needs is missing."""

    @abstractmethod
    def record(self, kind: Kind, values: Mapping[str, float]) -> None:
        """Take what a stage or an epoch ended with."""

    @abstractmethod
    def close(self) -> None:
        """Nothing more will come; what was received must last."""


SECONDS_BETWEEN_FLUSHES = 10  # the package's own 120 are for many small values
PLACES = ("stage", "epoch")  # values that say where a record stands; the step does


class TensorBoard(Tracker):
    """Event files for TensorBoard, in the run's folder."""

    name = "tensorboard"

    def __init__(self, folder: Path, spec: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter  # needs a package that not everybody has

        own = folder / "tensorboard"
        for old in own.glob("events.out.tfevents.*"):
            os.truncate(old, 0)  # not removed: a TensorBoard that has it open would never look at another
        # purge_step: what an open TensorBoard has read of the old file, it forgets when the new one says so.
        self._writer = SummaryWriter(str(own), purge_step=0, flush_secs=SECONDS_BETWEEN_FLUSHES)
        self._writer.add_text("spec", f"```json\n{json.dumps(spec, indent=1)}\n```")
        self._num_told: Counter[Kind] = Counter()

    @classmethod
    def check_installed(cls) -> None:
        if find_spec("tensorboard") is None:
            raise TrackerMissing(
                "--track tensorboard needs the package tensorboard: pip install -e '.[tensorboard]' in a checkout."
            )

    def record(self, kind: Kind, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            if name not in PLACES:
                self._writer.add_scalar(f"{kind}/{name}", value, self._num_told[kind])
        self._num_told[kind] += 1

    def close(self) -> None:
        self._writer.close()


class Tracking:
    """Passes what a run records on to the trackers of these names."""

    def __init__(self, names: Sequence[str], folder: RunFolder) -> None:
        self._names = names
        self._folder = folder
        self._trackers: dict[str, Tracker] = {}
        self._notes: list[str] = []

    @property
    def facts(self) -> dict[str, list[str]]:
        """For the run's status: which trackers failed, if any did."""
        return {"notes": self._notes} if self._notes else {}

    def begin(self) -> None:
        """Start the trackers, and pass them what the run stands on."""
        self.close()
        for name in self._names:
            with self._survived(name):
                tracker = registry.find(Tracker, name)
                tracker.check_installed()  # here, too: on a cluster, the machine that runs is not the one that asked
                self._trackers[name] = tracker(self._folder.path, read_run(self._folder.path).spec)
        for kind, record in in_order(self._folder) if self._trackers else []:
            self.record(kind, record)

    def record(self, kind: Kind, values: Mapping[str, float | None]) -> None:
        known = {name: value for name, value in values.items() if value is not None}
        for name, tracker in list(self._trackers.items()):
            with self._survived(name):
                tracker.record(kind, known)

    def close(self) -> None:
        for name, tracker in list(self._trackers.items()):
            with self._survived(name):
                tracker.close()
        self._trackers.clear()

    @contextmanager
    def _survived(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever a tracker raises, the run is worth more
            self._trackers.pop(name, None)
            self._notes.append(f"{name} failed and was called no more: {type(error).__name__}: {error}")


def in_order(folder: RunFolder) -> list[tuple[Kind, Record]]:
    """The run's records as it made them: a stage's epochs, then its end."""
    told: list[tuple[Kind, Record]] = [("epoch", record) for record in folder.epoch_log.read()]
    told += [("stage", record) for record in folder.stage_log.read()]
    return sorted(told, key=lambda pair: pair[1]["stage"])


SECONDS_BETWEEN_WRITES = 0.5  # status files are read by people; each write reaches the disk
CHECKPOINT_SECONDS = 30.0  # a kill costs at most this much; writing the paper's MLP takes a third of a second
MAX_SHARE_OF_TIME = 0.05  # that writing checkpoints may take: VGG-16 with Adam's moments is 650 MB
NOT_CAPTURED = "not all work on the GPU was captured as CUDA graphs, so it took longer: {}"

Snapshot = Callable[[], dict[str, Any]]  # all that the next step depends on


class Journal:
    """Writes one run's folder on behalf of the loop that trains it."""

    def __init__(
        self,
        folder: RunFolder,
        device: torch.device,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
        *,
        track: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.device = device
        self.checkpoint_seconds = checkpoint_seconds  # from one checkpoint to the next; changes no number
        self.tracking = Tracking(track, folder)
        self._seconds_before = float(folder.status().get("seconds", 0.0))
        self._started = self._last_checkpoint = time.monotonic()
        self._cost = 0.0  # seconds that the last checkpoint took
        self._last_write = 0.0
        self.num_records = self.num_epochs = 0
        self.facts: dict[str, float | str] = {}  # of the last progress

    @property
    def seconds(self) -> float:
        """Time spent on the run so far, earlier attempts included."""
        return self._seconds_before + time.monotonic() - self._started

    def resume(self) -> dict[str, Any] | None:
        """The newest whole checkpoint, or None to start from the beginning; later records are forgotten."""
        checkpoint = self.folder.latest_checkpoint(self.device)
        if checkpoint is not None and checkpoint["device"] != self.device.type:
            raise StorageError(
                f"the run was begun on {checkpoint['device']} and cannot go on bit for bit on {self.device.type}: "
                f"continue it with --device {checkpoint['device']}, or choose another folder with --out DIR."
            )
        stands_on = checkpoint or {"num_records": 0, "num_epochs": 0}
        self.num_records, self.num_epochs = stands_on["num_records"], stands_on["num_epochs"]
        self.facts.pop("not_captured", None)
        if told := stands_on.get("not_captured"):  # the checkpoint's, not the status': other work is done again
            self.facts["not_captured"] = told
        self.folder.stage_log.keep(self.num_records)
        self.folder.epoch_log.keep(self.num_epochs)
        self.tracking.begin()
        return checkpoint

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Around what puts a run back to its checkpoint: a content that does not fit is an UnusableCheckpoint."""
        try:
            yield
        except (StorageError, Interrupted, torch.OutOfMemoryError, MemoryError):
            raise
        except Exception as error:
            raise UnusableCheckpoint(f"{type(error).__name__}: {error}") from error

    def record_stage(self, **values: float) -> None:
        self.folder.stage_log.append(values)
        self.num_records += 1
        self.tracking.record("stage", values)

    def record_epoch(self, **values: float) -> None:
        self.folder.epoch_log.append(values)
        self.num_epochs += 1
        self.tracking.record("epoch", values)

    def write_progress(self, **facts: float) -> None:
        """Write progress to status.json at most twice a second; other keys stay."""
        self.facts |= facts
        if time.monotonic() - self._last_write >= SECONDS_BETWEEN_WRITES:
            self._last_write = time.monotonic()
            self.folder.write_status("running", **self.facts, **self.tracking.facts, seconds=self.seconds)

    def note_not_captured(self, what: str, reason: str | None) -> None:
        """Have the run say from now on, resumed or not, that this is not one CUDA graph; nothing without a reason."""
        if reason is None:
            return
        told, before = f"{what}: {reason}", str(self.facts.get("not_captured", ""))
        if told not in before:
            self.facts["not_captured"] = f"{before}; {told}" if before else told
            self._last_write = 0.0  # the next progress is written

    def checkpoint_if_due(self, snapshot: Snapshot) -> None:
        seconds = self.checkpoint_seconds
        patience = max(seconds, self._cost / MAX_SHARE_OF_TIME) if seconds else 0.0
        if ENDING.is_set() or time.monotonic() - self._last_checkpoint >= patience:
            self.checkpoint(snapshot)
        if ENDING.is_set():
            raise Terminated(f"terminated; run {self.folder.path.name} wrote a checkpoint")

    def checkpoint(self, snapshot: Snapshot) -> None:
        """Write all that the next step depends on, and how many records it stands on."""
        started = time.monotonic()
        content = snapshot()  # a DQN's first writes the frames of its replay: part of what a checkpoint costs
        self.sync()
        stands_on = self.folder.foundation(self.num_records, self.num_epochs)
        about = {"device": self.device.type, "not_captured": self.facts.get("not_captured")}
        write_checkpoint(self.folder.path, {**content, **stands_on, **about}, check=self.folder.check_lock)
        self.folder.copy_out_if_possible()
        self._last_checkpoint = time.monotonic()
        self._cost = self._last_checkpoint - started

    def sync(self) -> None:
        """Have the disk hold all records so far."""
        self.folder.stage_log.sync()
        self.folder.epoch_log.sync()
