"""What a sweep looks like while it goes: a live table on a terminal, plain lines in a pipe, nothing when quiet."""

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from types import MappingProxyType, TracebackType

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from supple_lab.spec import RunSpec
from supple_lab.store.lock import is_held
from supple_lab.store.reading import SETTLED, State, read_status
from supple_lab.store.store import Store

SECONDS_BETWEEN_LOOKS = 0.5
MAX_SHARE_OF_TIME = 0.1  # that looking may take: thousands of status files are not read twice a second
SECONDS_BETWEEN_LINES = 15.0
MAX_ROWS = 20  # what fits a terminal; the rest is counted
Conditions = Mapping[str, str]  # the label of each run's condition, by its id
NO_CONDITIONS: Conditions = MappingProxyType({})
ORDER: tuple[State, ...] = ("running", "failed", "diverged", "interrupted", "waiting", "done")


@dataclass(frozen=True)
class RunProgress:
    title: str
    state: State
    progress: float
    accuracy: float | None  # online, of the last epoch
    seconds: float = 0.0
    stage: int | None = None  # counted from 0

    @property
    def seconds_left(self) -> float | None:
        if self.state != "running" or self.progress <= 0:
            return None
        return self.seconds * (1 - self.progress) / self.progress


class View(ABC):
    """Looks at the store from a thread of its own while the sweep goes on; knows nothing of engines."""

    def __init__(self, store: Store, specs: Sequence[RunSpec], conditions: Conditions = NO_CONDITIONS) -> None:
        self.store = store
        self.specs = specs
        self._titles = titles_of(specs, conditions)
        self._at_start = {spec.run_id: look_at(store, spec) for spec in specs}
        self._settled: dict[str, RunProgress] = {}
        self._started = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def look(self) -> list[RunProgress]:
        """How every run stands now. Runs that ended since the start are not looked at again."""
        return [self._look_at(spec) for spec in self.specs]

    def seconds_left(self, runs: Sequence[RunProgress]) -> float | None:
        """An estimate from the rate so far; None before there is one."""
        started = list(self._at_start.values())
        progress = [1.0 if run.state in SETTLED else run.progress for run in runs]
        before = [0.0 if run.state in SETTLED else run.progress for run in started]
        gained = sum(now - then for now, then in zip(progress, before, strict=True) if now > then)
        return (time.monotonic() - self._started) * (len(runs) - sum(progress)) / gained if gained > 0 else None

    def __enter__(self) -> "View":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    def _look_at(self, spec: RunSpec) -> RunProgress:
        if spec.run_id in self._settled:
            return self._settled[spec.run_id]
        run = replace(look_at(self.store, spec), title=self._titles[spec.run_id])
        if run.state in SETTLED and run != replace(self._at_start[spec.run_id], title=run.title):
            self._settled[spec.run_id] = run
        return run

    def _watch(self) -> None:
        cost = 0.0
        while not self._ended.wait(max(SECONDS_BETWEEN_LOOKS, cost / MAX_SHARE_OF_TIME)):
            started = time.monotonic()
            self.show(self.look())
            cost = time.monotonic() - started
        self.show(self.look())

    @abstractmethod
    def show(self, runs: Sequence[RunProgress]) -> None:
        """Print or draw how the runs stand."""


class PlainLines(View):
    """A line when a run ends, and a summary now and then: readable in a log."""

    def __init__(self, store: Store, specs: Sequence[RunSpec], conditions: Conditions = NO_CONDITIONS) -> None:
        super().__init__(store, specs, conditions)
        self._told: set[str] = set()
        self._last_line = time.monotonic()

    def show(self, runs: Sequence[RunProgress]) -> None:
        for run_id, run in list(self._settled.items()):
            if run_id not in self._told:
                self._told.add(run_id)
                print(f"{run.title}: {run.state}{_accuracy(run)}", flush=True)
        if time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            print("; ".join([summary(runs, self.seconds_left(runs)), *at_work(runs)]), flush=True)


class LiveTable(View):
    """A table that is drawn over and over: the runs at work first, then what went wrong, then the others."""

    def __init__(self, store: Store, specs: Sequence[RunSpec], conditions: Conditions = NO_CONDITIONS) -> None:
        super().__init__(store, specs, conditions)
        self._live = Live(console=Console(), auto_refresh=False)

    def __enter__(self) -> "View":
        self._live.start()
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        super().__exit__(kind, error, at)
        self._live.stop()

    def show(self, runs: Sequence[RunProgress]) -> None:
        self._live.update(self.table(runs), refresh=True)

    def table(self, runs: Sequence[RunProgress]) -> Table:
        table = Table(caption=summary(runs, self.seconds_left(runs)), box=None, caption_justify="left")
        for heading in ("run", "state", "stage", "progress", "", "left", "online accuracy"):
            table.add_column(heading)
        for run in sorted(runs, key=lambda run: ORDER.index(run.state))[:MAX_ROWS]:
            bar = ProgressBar(total=1.0, completed=run.progress, width=24)
            left = "" if run.seconds_left is None else in_words(run.seconds_left)
            accuracy = "" if run.accuracy is None else f"{run.accuracy:.3f}"
            stage = "" if run.stage is None else f"{run.stage + 1}"
            table.add_row(Text(run.title), run.state, stage, bar, f"{run.progress:.0%}", left, accuracy)
        if len(runs) > MAX_ROWS:
            table.add_row(f"and {len(runs) - MAX_ROWS:,} more", "", "", "", "", "", "")
        return table


def choose_view(*, quiet: bool) -> Callable[..., AbstractContextManager[object]]:
    if quiet:
        return lambda *_: nullcontext()
    return LiveTable if sys.stdout.isatty() else PlainLines


def look_at(store: Store, spec: RunSpec) -> RunProgress:
    folder = store.folder(spec).path
    status = read_status(folder)
    return RunProgress(
        title=title_of(spec),
        state="interrupted" if status["state"] == "running" and not is_held(folder) else status["state"],
        progress=float(status.get("progress", 0.0)),
        accuracy=status.get("accuracy"),
        seconds=float(status.get("seconds", 0.0)),
        stage=status.get("stage"),
    )


def title_of(spec: RunSpec) -> str:
    """What people call a run; its id is in the report."""
    return f"{spec.method.name}, seed {spec.seed}"


def titles_of(specs: Sequence[RunSpec], conditions: Conditions = NO_CONDITIONS) -> dict[str, str]:
    """A title for each run by its id, with its condition if there are several, and its id if titles are equal."""
    several = len(set(conditions.values())) > 1
    titles = {spec.run_id: title_of(spec) for spec in specs}
    if several:
        titles = {run: f"{title}, {conditions[run]}" for run, title in titles.items()}
    counts = Counter(titles.values())
    return {run: title if counts[title] == 1 else f"{title} ({run})" for run, title in titles.items()}


def summary(runs: Sequence[RunProgress], seconds_left: float | None) -> str:
    states = [run.state for run in runs]
    counts = [f"{states.count(state):,} {state}" for state in ORDER if state in states]
    progress = sum(run.progress for run in runs) / max(len(runs), 1)
    left = "" if seconds_left is None or progress >= 1 else f", about {in_words(seconds_left)} left"
    return f"{len(runs):,} {'run' if len(runs) == 1 else 'runs'}: {', '.join(counts)}; {progress:.0%}{left}"


def at_work(runs: Sequence[RunProgress]) -> list[str]:
    """Stage and accuracy of the runs at work, of several the lowest and the highest."""
    running = [run for run in runs if run.state == "running"]
    stages = sorted(run.stage + 1 for run in running if run.stage is not None)
    accuracies = sorted(run.accuracy for run in running if run.accuracy is not None)
    shown = {"stage": [f"{stage}" for stage in stages], "online accuracy": [f"{one:.3f}" for one in accuracies]}
    return [f"{name} {' to '.join(dict.fromkeys((of[0], of[-1])))}" for name, of in shown.items() if of]


def in_words(seconds: float) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _accuracy(run: RunProgress) -> str:
    return "" if run.accuracy is None else f", online accuracy {run.accuracy:.3f} in its last epoch"
