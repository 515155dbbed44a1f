"""Messages about runs: what went wrong in them, what was set aside, what failed."""

import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from supple_lab.commands.base import DONE, FAILED
from supple_lab.commands.terminal import print_note
from supple_lab.registry import PLUGIN, is_ours
from supple_lab.run.network import methods_in
from supple_lab.run.recorder import NOT_CAPTURED
from supple_lab.spec import RunSpec
from supple_lab.store.store import Store
from supple_lab.sweep.sweep import Failure
from supple_lab.sweep.view import title_of

NUM_TRACEBACK_LINES = 6  # the last frames; status.json in the run's folder has all


def print_older(store: Store, specs: Iterable[RunSpec]) -> None:
    """Print how many runs of the plugin's methods are older than its file: their ids do not hold its code."""
    if PLUGIN not in os.environ:
        return
    file = Path(os.environ[PLUGIN])
    changed = file.stat().st_mtime
    own = [spec for spec in specs if not all(is_ours(type(method)) for method in methods_in(spec.method))]
    kept = [folder for spec in own if (folder := store.folder(spec)).state() != "failed" or folder.stage_log.read()]
    if number := sum(folder.status().get("updated", changed) < changed for folder in kept):
        print_note(
            f"{number:,} {'run is' if number == 1 else 'runs are'} older than {file.name} and kept. If the code of the "
            "method has changed, take another --out, or raise a field of it."
        )


def print_notes(store: Store, specs: Iterable[RunSpec]) -> None:
    """Print what went otherwise than it should and stopped no run, each thing once."""
    notes: Counter[str] = Counter()
    for status in (store.folder(spec).status() for spec in specs):
        notes.update(status.get("notes", ()))
        if reason := status.get("not_captured"):  # such steps may have other numbers
            notes[NOT_CAPTURED.format(reason)] += 1
    for note, number in notes.items():
        print_note(f"in {number:,} {'run' if number == 1 else 'runs'}: {note}")


def print_damage(store: Store, specs: list[RunSpec]) -> None:
    for spec in specs:
        for path in store.folder(spec).set_aside():
            print_note(f"{path} was set aside as damaged; what it held was computed again.")


def print_failures(failed: list[Failure]) -> int:
    """Name what failed, with each reason once; return the exit code."""
    printed: set[tuple[str, str]] = set()
    for failure in failed:
        what = "not finished here" if failure.busy else "failed before, not tried again" if failure.before else "failed"
        run, why = f"{title_of(failure.spec)} (run {failure.spec.run_id})", (failure.reason, failure.traceback)
        if why in printed:
            print(f"{what}: {run}: likewise", file=sys.stderr)
            continue
        printed.add(why)
        print(f"{what}: {run}: {failure.reason}", file=sys.stderr)
        for line in failure.traceback.strip().splitlines()[-NUM_TRACEBACK_LINES:]:
            print(f"    {line}", file=sys.stderr)
    if num_before := sum(failure.before for failure in failed):
        were, them = ("1 run was", "it") if num_before == 1 else (f"{num_before:,} runs were", "them")
        print_note(f"{were} not tried again after failing before; --retry-failed tries {them}.")
    return FAILED if failed else DONE
