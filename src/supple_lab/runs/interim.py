"""Interim: long work inside a stage's end, kept at checkpoints, so that a kill there costs no more than elsewhere."""

from collections.abc import Callable
from typing import Any

from supple_lab.runs.journal import Journal

Snapshot = dict[str, Any]


class Interim:
    """Where the work was when the last checkpoint was written, and how to keep where it is now."""

    def __init__(self, journal: Journal, snapshot: Callable[[], Snapshot], checkpoint: Snapshot | None) -> None:
        self._journal = journal
        self._snapshot = snapshot
        self._kept = None if checkpoint is None else checkpoint.get("interim")
        self.progress: Callable[[float], float] = lambda share: 0.0  # of the run, by the share of this work

    def take(self) -> Snapshot | None:
        """What was kept, once; None where the work is to begin."""
        kept, self._kept = self._kept, None
        return kept

    def keep(self, state: Snapshot, *, share: float) -> None:
        """Write a checkpoint with the state if one is due, and tell onlookers how far the work is."""
        self._journal.checkpoint_if_due(lambda: {**self._snapshot(), "interim": state})
        self._journal.glance(progress=self.progress(share))
