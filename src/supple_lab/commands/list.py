"""supple list: what there is to choose from, and how the runs of a folder stand."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, get_args

import tyro

from supple.methods.base import Method
from supple.metrics.base import Metric
from supple_lab import registry
from supple_lab.commands.base import DONE, BadUsage, Command
from supple_lab.commands.form import names_of
from supple_lab.commands.messages import print_table
from supple_lab.data.base import Dataset
from supple_lab.files import StorageError
from supple_lab.models.base import Model
from supple_lab.paper.study import Study
from supple_lab.report.remarks import counted
from supple_lab.rl.base import Game
from supple_lab.rl.games import GAMES
from supple_lab.run.recorder import Tracker
from supple_lab.scenarios.base import Scenario
from supple_lab.spec import Problem
from supple_lab.store.reading import State, StoredRun
from supple_lab.store.store import Store
from supple_lab.sweep.executor import Executor
from supple_lab.sweep.view import in_words

KINDS: dict[str, type] = {
    "methods": Method,
    "metrics": Metric,
    "scenarios": Scenario,
    "datasets": Dataset,
    "models": Model,
    "games": Game,
    "studies": Study,
    "engines": Executor,
    "trackers": Tracker,
}
HEADINGS = ("run", "method", "scenario", "dataset", "seed", "state", "progress", "left", "online accuracy", "reason")
NAMED: dict[str, tuple[type, ...]] = {"method": (Method,), "scenario": (Scenario, Problem), "dataset": (Dataset, Game)}
FILTERS = ("method", "scenario", "dataset", "state", "seed")
MAX_REASON = 60  # characters; the whole of it is in the run's status.json
ON_ONE_SCREEN = 1000  # runs up to which a table is laid out nicely; that takes a millisecond a row


@dataclass(frozen=True, kw_only=True)
class List(Command):
    """Show methods, metrics, scenarios, datasets, models, games, studies, engines, trackers, or a folder's runs."""

    what: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="KIND")] = "all"
    """One of these kinds, or runs, which needs --out."""
    out: Path | None = None
    """Folder of the runs."""
    method: tuple[str, ...] = ()
    """Runs of these methods alone."""
    scenario: tuple[str, ...] = ()
    """Runs of these scenarios alone."""
    dataset: tuple[str, ...] = ()
    """Runs on these datasets alone."""
    state: tuple[str, ...] = ()
    """Runs that stand so: waiting, running, interrupted, done, diverged, failed."""
    seed: tuple[int, ...] = ()
    """Runs of these seeds alone."""

    def obey(self) -> int:
        if self.what == "runs":
            return self.list_runs()
        if self.what not in (*KINDS, "all"):
            raise registry.UnknownName(registry.no_such("kind of thing", self.what, [*KINDS, "runs"]))
        for kind in KINDS if self.what == "all" else [self.what]:
            print_table((kind, ""), rows_of(kind))
        return DONE

    def list_runs(self) -> int:
        """Print the runs of a folder that were asked for, with state, progress and time left."""
        if self.out is None:
            raise BadUsage("`supple list runs` needs the folder of the runs: --out DIR.")
        for state in self.state:
            if state not in get_args(State):
                raise registry.UnknownName(registry.no_such("state", state, get_args(State)))
        found = Store.open(self.out).runs()
        if not found:
            raise StorageError(f"{self.out} holds no runs. Make some with `supple run STUDY --out {self.out}`.")
        self.check_names(found)
        wanted = [entry for entry in found if self.is_wanted(entry)]
        print_runs(wanted)
        print(counts(wanted), file=sys.stderr)  # not among the rows that a pipe carries on
        for entry in found:
            if "spec.json" in entry.wrong:
                path = self.out / "runs" / entry.id / "spec.json"
                print(f"note: {path} is damaged; the command that made the run mends it.", file=sys.stderr)
        return DONE

    def check_names(self, found: Sequence[StoredRun]) -> None:
        """Refuse a name that is none, rather than show that nothing has it; runs may have names of a plugin's."""
        for filter_name, kinds in NAMED.items():
            there = {getattr(entry, filter_name) for entry in found}
            for name in getattr(self, filter_name):
                if name not in there and name not in (known := {one for kind in kinds for one in names_of(kind)}):
                    raise registry.UnknownName(registry.no_such(filter_name, name, sorted(known | there)))

    def is_wanted(self, entry: StoredRun) -> bool:
        """Whether the run passes every filter that was given."""
        return all(not getattr(self, name) or getattr(entry, name) in getattr(self, name) for name in FILTERS)


def print_runs(wanted: Sequence[StoredRun]) -> None:
    """A table; plain columns where it would be long."""
    if len(wanted) <= ON_ONE_SCREEN:
        print_table(HEADINGS, [row_of(entry) for entry in wanted])
        return
    rows = [HEADINGS, *(row_of(entry) for entry in wanted)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def row_of(entry: StoredRun) -> tuple[str, ...]:
    """One run as text."""
    left = "" if entry.seconds_left is None else in_words(entry.seconds_left)
    accuracy = "" if "accuracy" not in entry.status else f"{entry.status['accuracy']:.3f}"
    reason = entry.reason if len(entry.reason) <= MAX_REASON else f"{entry.reason[:MAX_REASON]}..."
    who = (entry.id, entry.method, entry.scenario, entry.dataset, str(entry.seed))
    return (*who, entry.state, f"{entry.progress:.0%}", left, accuracy, reason.replace("\n", " "))


def counts(wanted: Iterable[StoredRun]) -> str:
    """How many runs stand how."""
    states = Counter(entry.state for entry in wanted)
    by_state = ", ".join(f"{number:,} {state}" for state, number in states.most_common())
    return counted(states.total()) + (f": {by_state}" if by_state else "")


def rows_of(kind: str) -> list[tuple[str, str]]:
    """What there is of a kind: names and what they say of themselves; of games, Atari's titles besides."""
    classes: dict[str, type] = registry.known(KINDS[kind])
    titles = [(title, "Atari") for title in GAMES] if KINDS[kind] is Game else []
    return [*((name, first_line(cls)) for name, cls in classes.items()), *titles]


def first_line(cls: type) -> str:
    """What a class says of itself."""
    return (cls.__doc__ or "").splitlines()[0]
