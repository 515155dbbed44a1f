"""Output: what is printed, whether or not anybody reads it to its end: no run stops because `head` has seen enough."""

import io
import os
import sys
from typing import Any, TextIO


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
