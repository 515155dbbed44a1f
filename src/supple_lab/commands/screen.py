"""Tables on the terminal."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from supple_lab.report.figure import Drawing

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


def print_drawing(drawing: Drawing, page: Path) -> None:
    """A study's tables, and where its page is."""
    for table in drawing.tables:
        print_table(table.header, table.rows, title=table.caption)
    print(f"page: {page.resolve()}")
