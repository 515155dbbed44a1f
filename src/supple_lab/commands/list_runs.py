"""supple list runs: how the runs of a folder stand."""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import get_args

from supple_lab import registry
from supple_lab.commands.base import DONE
from supple_lab.commands.terminal import print_note
from supple_lab.files import StorageError
from supple_lab.report.remarks import counted
from supple_lab.rl.games import GAMES
from supple_lab.store.reading import State, StoredRun
from supple_lab.store.store import Store
from supple_lab.sweep.view import in_words

HEADINGS = ("run", "method", "scenario", "dataset", "seed", "state", "progress", "left", "online accuracy", "reason")
NAMED = {"method": ("method",), "scenario": ("scenario", "problem"), "dataset": ("dataset", "game")}  # kinds of names
MAX_REASON = 60  # characters; the whole of it is in the run's status.json


def list_runs(out: Path, wanted_by: Mapping[str, Sequence[object]]) -> int:
    """Print the runs of a folder that pass every filter, with state, progress and time left."""
    for state in wanted_by["state"]:
        if state not in get_args(State):
            raise registry.UnknownName(registry.no_such("state", str(state), get_args(State)))
    found = Store.open(out).runs()
    if not found:
        raise StorageError(f"{out} holds no runs. Make some with `supple run STUDY --out {out}`.")
    check_names(found, wanted_by)
    wanted = [
        entry
        for entry in found
        if all(not values or getattr(entry, name) in values for name, values in wanted_by.items())
    ]
    rows = [HEADINGS, *map(row_of, wanted)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:  # not as a table of rich's, which takes a millisecond a row
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print(counts(wanted), file=sys.stderr)  # not among the rows that a pipe carries on
    for entry in found:
        if "spec.json" in entry.wrong:
            path = out / "runs" / entry.id / "spec.json"
            print_note(f"{path} is damaged; the command that made the run mends it.")
    return DONE


def check_names(found: Sequence[StoredRun], wanted_by: Mapping[str, Sequence[object]]) -> None:
    """Refuse a name that is none, rather than show that nothing has it; runs may have names of a plugin's."""
    for filter_name, kinds in NAMED.items():
        there = {getattr(entry, filter_name) for entry in found}
        known = {name for kind in kinds for name in registry.summaries(kind)} | there
        known |= set(GAMES) if "game" in kinds else set()
        for name in map(str, wanted_by[filter_name]):
            if name not in known:
                raise registry.UnknownName(registry.no_such(filter_name, name, sorted(known)))


def row_of(entry: StoredRun) -> tuple[str, ...]:
    left = "" if entry.seconds_left is None else in_words(entry.seconds_left)
    accuracy = "" if "accuracy" not in entry.status else f"{entry.status['accuracy']:.3f}"
    reason = entry.reason if len(entry.reason) <= MAX_REASON else f"{entry.reason[:MAX_REASON]}..."
    who = (entry.id, entry.method, entry.scenario, entry.dataset, str(entry.seed))
    return (*who, entry.state, f"{entry.progress:.0%}", left, accuracy, reason.replace("\n", " "))


def counts(wanted: Iterable[StoredRun]) -> str:
    states = Counter(entry.state for entry in wanted)
    by_state = ", ".join(f"{number:,} {state}" for state, number in states.most_common())
    return counted(states.total()) + (f": {by_state}" if by_state else "")
