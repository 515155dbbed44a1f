"""What a sweep looks like while it goes: a live table on a terminal, plain lines in a pipe, nothing when quiet."""

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from supple_lab.runs.run_folder import State
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.store import Store

SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_BETWEEN_LINES = 15.0
MAX_ROWS = 20  # what fits a terminal; the rest is counted


@dataclass(frozen=True)
class Glance:
    """One run as seen from outside."""

    title: str
    state: State
    progress: float
    accuracy: float | None


class View(ABC):
    """Looks at the store from a thread of its own while the sweep goes on; knows nothing of engines."""

    def __init__(self, store: Store, specs: Sequence[RunSpec]) -> None:
        self.store = store
        self.specs = specs
        self._started = time.monotonic()
        self._progress_at_start = sum(glance.progress for glance in self.look())
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def look(self) -> list[Glance]:
        """How every run stands now."""
        return [look_at(self.store, spec) for spec in self.specs]

    def seconds_left(self, glances: Sequence[Glance]) -> float | None:
        """An estimate from the rate so far; None before there is one."""
        progress = sum(glance.progress for glance in glances)
        gained = progress - self._progress_at_start
        return (time.monotonic() - self._started) * (len(glances) - progress) / gained if gained > 0 else None

    def __enter__(self) -> "View":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(SECONDS_BETWEEN_LOOKS):
            self.show(self.look())
        self.show(self.look())

    @abstractmethod
    def show(self, glances: Sequence[Glance]) -> None:
        """Tell the onlooker."""


class Quiet(View):
    """Says nothing."""

    def show(self, glances: Sequence[Glance]) -> None:
        pass


class PlainLines(View):
    """A line when a run ends, and a summary now and then: readable in a log."""

    def __init__(self, store: Store, specs: Sequence[RunSpec]) -> None:
        super().__init__(store, specs)
        self._told = {glance.title for glance in self.look() if glance.state == "done"}
        self._last_line = time.monotonic()

    def show(self, glances: Sequence[Glance]) -> None:
        for glance in glances:
            if glance.state in ("done", "failed", "diverged") and glance.title not in self._told:
                self._told.add(glance.title)
                print(f"{glance.title}: {glance.state}{_accuracy(glance)}", flush=True)
        if time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            print(summary(glances, self.seconds_left(glances)), flush=True)


class LiveTable(View):
    """A table that is drawn over and over, the runs at work first."""

    def __init__(self, store: Store, specs: Sequence[RunSpec]) -> None:
        super().__init__(store, specs)
        self._live = Live(console=Console(), auto_refresh=False)

    def __enter__(self) -> "View":
        self._live.start()
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        super().__exit__(kind, error, at)
        self._live.stop()

    def show(self, glances: Sequence[Glance]) -> None:
        table = Table(caption=summary(glances, self.seconds_left(glances)), box=None, caption_justify="left")
        for heading in ("run", "state", "progress", "accuracy"):
            table.add_column(heading)
        for glance in sorted(glances, key=lambda glance: glance.state != "running")[:MAX_ROWS]:
            bar = ProgressBar(total=1.0, completed=glance.progress, width=24)
            table.add_row(glance.title, glance.state, bar, "" if glance.accuracy is None else f"{glance.accuracy:.3f}")
        self._live.update(table, refresh=True)


def choose_view(*, quiet: bool) -> type[View]:
    """The view that suits the output."""
    if quiet:
        return Quiet
    return LiveTable if sys.stdout.isatty() else PlainLines


def look_at(store: Store, spec: RunSpec) -> Glance:
    """Read one run's status."""
    status = store.folder(spec).status()
    return Glance(title_of(spec), status["state"], float(status.get("progress", 0.0)), status.get("accuracy"))


def title_of(spec: RunSpec) -> str:
    """What people call a run; its id is in the report."""
    return f"{spec.method.name}, seed {spec.seed}"


def summary(glances: Sequence[Glance], seconds_left: float | None) -> str:
    """Counts and the time left in one line."""
    states = [glance.state for glance in glances]
    counts = [f"{states.count(state)} {state}" for state in dict.fromkeys(sorted(states))]
    progress = sum(glance.progress for glance in glances) / max(len(glances), 1)
    left = "" if seconds_left is None or progress >= 1 else f", about {in_words(seconds_left)} left"
    return f"{len(glances)} runs: {', '.join(counts)}; {progress:.0%}{left}"


def in_words(seconds: float) -> str:
    """A duration as people say it."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _accuracy(glance: Glance) -> str:
    return "" if glance.accuracy is None else f", accuracy {glance.accuracy:.3f}"
