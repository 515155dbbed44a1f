"""Journal: what a run says while it goes. Records are final, progress is a glance, checkpoints come by the clock."""

import time
from typing import Any

import torch

from supple_lab.runs.checkpoint import write_checkpoint
from supple_lab.runs.run_folder import RunFolder

SECONDS_BETWEEN_GLANCES = 0.5  # status files are read by people; each write reaches the disk


class Journal:
    """Writes one run's folder on behalf of the loop that trains it."""

    def __init__(self, folder: RunFolder, device: torch.device, *, checkpoint_seconds: float) -> None:
        self.folder = folder
        self.device = device
        self.checkpoint_seconds = checkpoint_seconds
        self._seconds_before = float(folder.status().get("seconds", 0.0))
        self._started = self._last_checkpoint = time.monotonic()
        self._last_glance = 0.0
        self.num_records = 0
        self.facts: dict[str, float] = {}  # the last glance

    @property
    def seconds(self) -> float:
        """Time spent on the run so far, earlier attempts included."""
        return self._seconds_before + time.monotonic() - self._started

    def resume(self) -> dict[str, Any] | None:
        """The newest whole checkpoint, or None to start from the beginning; later records are forgotten."""
        checkpoint = self.folder.latest_checkpoint(self.device)
        self.num_records = 0 if checkpoint is None else checkpoint["num_records"]
        self.folder.keep_records(self.num_records)
        return checkpoint

    def record(self, **values: float) -> None:
        """Add a final result."""
        self.folder.append_record(values)
        self.num_records += 1

    def glance(self, **facts: float) -> None:
        """Tell onlookers how far the run is, not too often."""
        self.facts = facts
        if time.monotonic() - self._last_glance >= SECONDS_BETWEEN_GLANCES:
            self._last_glance = time.monotonic()
            self.folder.write_status("running", **facts, seconds=self.seconds)

    @property
    def checkpoint_is_due(self) -> bool:
        """Whether the last checkpoint is old enough for another."""
        return time.monotonic() - self._last_checkpoint >= self.checkpoint_seconds

    def checkpoint(self, snapshot: dict[str, Any]) -> None:
        """Write all that the next step depends on, and how many records it stands on."""
        write_checkpoint(self.folder.path, {**snapshot, "num_records": self.num_records})
        self._last_checkpoint = time.monotonic()
