"""Tracking: the trackers of one run. One that fails is dropped with a note, and the run goes on without it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from supple_lab import lookup
from supple_lab.runs.record_log import Record
from supple_lab.runs.run_folder import RunFolder
from supple_lab.trackers.base import Kind, Tracker


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
        """Start the trackers, and tell them what the run stands on."""
        self.close()
        for name in self._names:
            with self._survived(name):
                self._trackers[name] = self._start(lookup.find(Tracker, name))
        for kind, record in in_order(self._folder) if self._trackers else []:
            self.record(kind, record)

    def record(self, kind: Kind, values: Mapping[str, float | None]) -> None:
        """Tell every tracker what has a value."""
        known = {name: value for name, value in values.items() if value is not None}
        for name, tracker in list(self._trackers.items()):
            with self._survived(name):
                tracker.record(kind, known)

    def close(self) -> None:
        """Have the trackers finish what they write."""
        for name, tracker in list(self._trackers.items()):
            with self._survived(name):
                tracker.close()
        self._trackers.clear()

    def _start(self, tracker: type[Tracker]) -> Tracker:
        tracker.check_installed()  # here, too: on a cluster, the machine that runs is not the one that asked
        return tracker(self._folder.path, self._folder.spec().to_dict())

    @contextmanager
    def _survived(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever a tracker raises, the run is worth more
            self._trackers.pop(name, None)
            self._notes.append(f"{name} failed and was told no more: {type(error).__name__}: {error}")


def in_order(folder: RunFolder) -> list[tuple[Kind, Record]]:
    """The run's records as it made them: a stage's epochs, then its end."""
    told: list[tuple[Kind, Record]] = [("epoch", record) for record in folder.epochs()]
    told += [("stage", record) for record in folder.records()]
    return sorted(told, key=lambda pair: pair[1]["stage"])
