"""supple list runs: how the runs of a folder stand."""

import sys
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import get_args

from supple_lab import registry
from supple_lab.commands.base import DONE
from supple_lab.commands.terminal import print_note
from supple_lab.files import StorageError
from supple_lab.report.remarks import counted
from supple_lab.store.reading import State, StoredRun
from supple_lab.store.store import Store
from supple_lab.sweep.view import in_words

HEADINGS = ("run", "method", "scenario", "dataset", "seed", "state", "progress", "left", "online accuracy", "reason")
MAX_REASON = 60  # characters; the whole of it is in the run's status.json


def list_runs(out: Path, *, methods: Collection[str], states: Collection[str]) -> int:
    """Print the runs of a folder, or those of some methods and states, with progress and time left."""
    found = Store.open(out).runs()
    if not found:
        raise StorageError(f"{out} holds no runs. Make some with `supple run STUDY --out {out}`.")
    known = {*registry.summaries("method"), *(entry.method for entry in found)}  # runs may be of a plugin's
    for kind, names, there in (("method", methods, sorted(known)), ("state", states, get_args(State))):
        for name in names:
            if name not in there:
                raise registry.UnknownName(registry.no_such(kind, name, there))
    wanted = [
        entry for entry in found if (not methods or entry.method in methods) and (not states or entry.state in states)
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
