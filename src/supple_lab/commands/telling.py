"""Telling: what a command says on the error stream of runs that failed, of files damaged or refused, and of notes."""

import errno
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from supple_lab.atomic_write import CHOOSE_FOLDER, DISK_FULL, StorageError, storage_error
from supple_lab.commands.base import DONE, FAILED
from supple_lab.runs.journal import NOT_CAPTURED
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.store import Store
from supple_lab.sweep.sweep import Failure
from supple_lab.sweep.view import title_of

WAYS_OUT = {
    **dict.fromkeys((errno.EACCES, errno.EPERM), "Have it opened to you, or choose another folder."),
    **dict.fromkeys(
        (errno.EISDIR, errno.ENOTDIR, errno.EEXIST), "Move away what lies there, or choose another folder."
    ),
}
NUM_TRACEBACK_LINES = 6  # the last frames; status.json in the run's folder has all


def tell_notes(store: Store, specs: Iterable[RunSpec]) -> None:
    """Say what went otherwise than it should and stopped no run, each thing once, on the error stream."""
    notes = Counter(note for spec in specs for note in notes_in(store.folder(spec).status()))
    for note, number in notes.items():
        print(f"note: in {number:,} {'run' if number == 1 else 'runs'}: {note}", file=sys.stderr)


def notes_in(status: dict[str, Any]) -> list[str]:
    """What a run says of itself that somebody should know; steps that were not captured may have other numbers."""
    told = status.get("not_captured")
    return [*status.get("notes", ()), *([NOT_CAPTURED.format(told)] if told else [])]


def tell_damage(store: Store, specs: list[RunSpec]) -> None:
    """Name the files that could not be read, on the error stream."""
    for spec in specs:
        for path in store.folder(spec).set_aside():
            print(f"note: {path} was set aside as damaged; what it held was computed again.", file=sys.stderr)


def tell_failures(failed: list[Failure]) -> int:
    """Name what failed, on the error stream; why, once where it is the same."""
    told: set[tuple[str, str]] = set()
    for failure in failed:
        what = "not finished here" if failure.busy else "failed before, not tried again" if failure.before else "failed"
        run, why = f"{title_of(failure.spec)} (run {failure.spec.run_id})", (failure.reason, failure.traceback)
        if why in told:
            print(f"{what}: {run}: likewise", file=sys.stderr)
            continue
        told.add(why)
        print(f"{what}: {run}: {failure.reason}", file=sys.stderr)
        for line in failure.traceback.strip().splitlines()[-NUM_TRACEBACK_LINES:]:
            print(f"    {line}", file=sys.stderr)
    if num_before := sum(failure.before for failure in failed):
        were, them = ("1 run was", "it") if num_before == 1 else (f"{num_before:,} runs were", "them")
        print(f"note: {were} not tried again after failing before; --retry-failed tries {them}.", file=sys.stderr)
    return FAILED if failed else DONE


@contextmanager
def refusals_told() -> Iterator[None]:
    """Have what the disk refuses be a StorageError that says what to do, where no part of the store has said it before.

    Such are another user's folder, and a file where a folder should be.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None:  # it is about no file
            raise
        raise refusal(error, Path(os.fsdecode(error.filename))) from error


@contextmanager
def advising(way_out: str) -> Iterator[None]:
    """Have a refusal to write end with this advice, where --out is not the folder that is written to."""
    try:
        yield
    except StorageError as error:
        raise StorageError(str(error).replace(CHOOSE_FOLDER, way_out)) from error


def refusal(error: OSError, path: Path) -> StorageError:
    """What the operating system said when a file was read or written, in a sentence."""
    if error.errno in DISK_FULL:
        return storage_error(error, path)
    way_out = WAYS_OUT.get(error.errno or 0, "If that lasts, choose another folder.")
    return StorageError(f"cannot use {path}: {error.strerror}. {way_out}")
