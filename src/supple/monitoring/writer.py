"""Where the Monitor's numbers go besides its own table: a TensorBoard writer, or any function of a row."""

from collections.abc import Callable
from typing import Any

Row = dict[str, float]  # "step", and each number by its name
Write = Callable[[Row], object]


def write_of(writer: Any) -> Write:
    """What to call with each row: the writer's ``add_scalar`` for each number, or the writer if it is a function."""
    if writer is None:
        return nowhere
    if hasattr(writer, "add_scalar"):
        return ScalarWriter(writer)
    if callable(writer):
        return writer
    raise TypeError(
        "Monitor's writer must have add_scalar(tag, value, step), as TensorBoard's SummaryWriter, or be a function "
        f"of a row (a dict of numbers with its step); got {type(writer).__name__}."
    )


def nowhere(row: Row) -> None:
    """Write nothing."""


class ScalarWriter:
    """Hands each number of a row to ``add_scalar``."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer

    def __call__(self, row: Row) -> None:
        step = int(row["step"])
        for tag, value in row.items():
            if tag != "step":
                self.writer.add_scalar(tag, value, step)
