"""The terminal: tables, streams that outlive their readers, and what the disk refuses as a sentence."""

import errno
import io
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table

from supple_lab.files import CHOOSE_FOLDER, DISK_FULL, StorageError, storage_error

WIDTH_OF_A_PIPE = 200  # a file has no edge to wrap at
WAYS_OUT = {
    **dict.fromkeys((errno.EACCES, errno.EPERM), "Have it opened to you, or choose another folder."),
    **dict.fromkeys(
        (errno.EISDIR, errno.ENOTDIR, errno.EEXIST), "Move away what lies there, or choose another folder."
    ),
}


def print_table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str | None = None,
    bold: Collection[tuple[int, int]] = (),
) -> None:
    """A plain table, as wide as it needs to be when piped; cells in bold stand between asterisks, as in Markdown."""
    if title is not None:
        print(f"\n{title}")
    table = Table(*header, box=None, pad_edge=False)
    for i, row in enumerate(rows):
        table.add_row(*(f"**{cell}**" if (i, j) in bold else cell for j, cell in enumerate(row)))
    width = None if sys.stdout.isatty() else WIDTH_OF_A_PIPE
    Console(width=width, markup=False, emoji=False).print(table)  # a reason in brackets is a reason, no style


def print_note(note: str) -> None:
    print(f"note: {note}", file=sys.stderr, flush=True)


def patient(stream: TextIO | None) -> TextIO:
    """The same stream, which outlives its reader; one that was closed from the start goes nowhere at once."""
    if stream is None:
        return open(os.devnull, "w")
    if not isinstance(stream, io.TextIOWrapper):  # not a file, such as a notebook's
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(PatientFile(stream.fileno(), "wb", closefd=False)),
        encoding=stream.encoding,
        errors="replace" if stream.errors == "strict" else stream.errors,  # a pipe on Windows knows no minus sign
        line_buffering=stream.line_buffering or stream.write_through,  # unbuffered, as by python -u: line by line
    )


class PatientFile(io.FileIO):
    """A file whose descriptor is turned to the null device when its reader is gone."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return super().write(data)


@contextmanager
def refusals_as_sentences() -> Iterator[None]:
    """Turn what the disk refuses, if the store has not, into a StorageError that says what to do.

    Such are another user's folder, and a file in place of a folder.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None:  # it is about no file
            raise
        path = Path(os.fsdecode(error.filename))
        if error.errno in DISK_FULL:
            raise storage_error(error, path) from error
        way_out = WAYS_OUT.get(error.errno or 0, "If that lasts, choose another folder.")
        raise StorageError(f"cannot use {path}: {error.strerror}. {way_out}") from error


@contextmanager
def advising(way_out: str) -> Iterator[None]:
    """Give this advice if writing is refused and --out is not the folder that is written to."""
    try:
        yield
    except StorageError as error:
        raise type(error)(str(error).replace(CHOOSE_FOLDER, way_out)) from error
