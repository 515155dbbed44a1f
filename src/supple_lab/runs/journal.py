"""Journal: what a run says while it goes. Records are final, progress is a glance, checkpoints come by the clock."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from supple_lab.atomic_write import StorageError
from supple_lab.runs.checkpoint import write_checkpoint
from supple_lab.runs.run_folder import RunFolder
from supple_lab.runs.tracking import Tracking

SECONDS_BETWEEN_GLANCES = 0.5  # status files are read by people; each write reaches the disk
MAX_SHARE_OF_TIME = 0.05  # that writing checkpoints may take: VGG-16 with Adam's moments is 650 MB
NOT_CAPTURED = "not all work on the GPU was captured as CUDA graphs, so it took longer: {}"

Snapshot = Callable[[], dict[str, Any]]  # all that the next step depends on


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How often a run writes a checkpoint; changes no number."""

    seconds: float = 30.0  # a kill costs at most this much; writing the paper's MLP takes a third of a second
    stages: int = 0  # besides, at the end of every so many stages; 0: by the clock alone

    def __post_init__(self) -> None:
        if not self.seconds >= 0.0 or self.stages < 0:
            raise ValueError(f"Pace.seconds and Pace.stages are at least 0; got {self.seconds} and {self.stages}.")


class Journal:
    """Writes one run's folder on behalf of the loop that trains it."""

    def __init__(self, folder: RunFolder, device: torch.device, pace: Pace, *, track: Sequence[str] = ()) -> None:
        self.folder = folder
        self.device = device
        self.pace = pace
        self.tracking = Tracking(track, folder)
        self._seconds_before = float(folder.status().get("seconds", 0.0))
        self._started = self._last_checkpoint = time.monotonic()
        self._cost = 0.0  # seconds that the last checkpoint took
        self._last_glance = 0.0
        self.num_records = self.num_epochs = 0
        self.facts: dict[str, float | str] = {}  # the last glance

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

    def record_stage(self, **values: float) -> None:
        """Add a stage's final results."""
        self.folder.check_lease()
        self.folder.stage_log.append(values)
        self.num_records += 1
        self.tracking.record("stage", values)

    def record_epoch(self, **values: float) -> None:
        """Add an epoch's final results."""
        self.folder.check_lease()
        self.folder.epoch_log.append(values)
        self.num_epochs += 1
        self.tracking.record("epoch", values)

    def glance(self, **facts: float) -> None:
        """Tell onlookers how far the run is, not too often; facts not given again stay as they were."""
        self.facts |= facts
        if time.monotonic() - self._last_glance >= SECONDS_BETWEEN_GLANCES:
            self._last_glance = time.monotonic()
            self.folder.write_status("running", **self.facts, **self.tracking.facts, seconds=self.seconds)

    def note_not_captured(self, what: str, reason: str | None) -> None:
        """Have the run say from now on, resumed or not, that this is not one CUDA graph; nothing without a reason."""
        if reason is None:
            return
        told, before = f"{what}: {reason}", str(self.facts.get("not_captured", ""))
        if told not in before:
            self.facts["not_captured"] = f"{before}; {told}" if before else told
            self._last_glance = 0.0  # the next glance is written

    def checkpoint_if_due(self, snapshot: Snapshot) -> None:
        """Write a checkpoint if the last one is old enough."""
        patience = max(self.pace.seconds, self._cost / MAX_SHARE_OF_TIME) if self.pace.seconds else 0.0
        if time.monotonic() - self._last_checkpoint >= patience:
            self.checkpoint(snapshot)

    def checkpoint_after_stage(self, stage: int, snapshot: Snapshot) -> None:
        """Write a checkpoint if it is this stage's turn."""
        if self.pace.stages and (stage + 1) % self.pace.stages == 0:
            self.checkpoint(snapshot)

    def checkpoint(self, snapshot: Snapshot) -> None:
        """Write all that the next step depends on, and how many records it stands on."""
        started = time.monotonic()
        content = snapshot()  # a DQN's first writes the frames of its replay: part of what a checkpoint costs
        self.sync()
        stands_on = self.folder.foundation(self.num_records, self.num_epochs)
        self.folder.check_lease()
        about = {"device": self.device.type, "not_captured": self.facts.get("not_captured")}
        write_checkpoint(self.folder.path, {**content, **stands_on, **about})
        self.folder.copy_out_if_possible()
        self._last_checkpoint = time.monotonic()
        self._cost = self._last_checkpoint - started

    def sync(self) -> None:
        """Have the disk hold all records so far."""
        self.folder.stage_log.sync()
        self.folder.epoch_log.sync()
