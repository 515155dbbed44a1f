"""Tables on the terminal."""

import errno
import io
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table

from supple_lab.commands.base import DONE, FAILED
from supple_lab.files import CHOOSE_FOLDER, DISK_FULL, StorageError, storage_error
from supple_lab.report.figure import StudyReport
from supple_lab.run.recorder import NOT_CAPTURED
from supple_lab.spec import RunSpec
from supple_lab.store.store import Store
from supple_lab.sweep.sweep import Failure
from supple_lab.sweep.view import title_of

WIDTH_OF_A_PIPE = 200  # a file has no edge to wrap at


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None) -> None:
    """A plain table, as wide as it needs to be when piped."""
    if title is not None:
        print(f"\n{title}")
    table = Table(*header, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else WIDTH_OF_A_PIPE
    Console(width=width, markup=False, emoji=False).print(table)  # a reason in brackets is a reason, no style


def print_drawing(drawing: StudyReport, page: Path) -> None:
    """A study's tables, and where its page is."""
    for table in drawing.tables:
        print_table(table.header, table.rows, title=table.caption)
    print(f"page: {page.resolve()}")


def outlive_readers_() -> None:
    """Have what this process prints go nowhere once its reader is gone, rather than raise."""
    sys.stdout, sys.stderr = patient(sys.stdout), patient(sys.stderr)


def patient(stream: TextIO | None) -> TextIO:
    """The same stream, which outlives its reader; one that was closed from the start goes nowhere at once."""
    if stream is None:
        return open(os.devnull, "w")
    if not isinstance(stream, io.TextIOWrapper):  # somebody's own, such as a notebook's
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(PatientFile(stream.fileno(), "wb", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering or stream.write_through,  # unbuffered, as by python -u: line by line
    )


class PatientFile(io.FileIO):
    """A file whose descriptor is turned to the null device when its reader is gone."""

    def write(self, data: Any, /) -> int:
        """Write to whoever reads, or to nobody."""
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return super().write(data)


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
