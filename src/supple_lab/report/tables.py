"""Tables: rows of text as Markdown, LaTeX and CSV, each with its own escapes.

A cell that a mean over seeds was shown in carries its bootstrap interval: printed in brackets, in CSV in two columns.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from supple_lab.report.figure import ClaimRow, Place, Table
from supple_lab.report.intervals import Shown

MARKDOWN_MARKS = re.compile(r"([\\`*_\[\]<>|$~])")
LONGEST_WORD = 30  # letters; longer cells do not fit side by side on a page of paper
ABSENT = "\N{EN DASH}"  # in place of a value that is not there
NUMBER = re.compile(rf"[-+\N{{MINUS SIGN}}]?\d[\d., ±%e]*(to [-\d.]+)?|{ABSENT}")
IN_BRACKETS = "In brackets: 95% percentile bootstrap interval of the mean over seeds, too narrow over few of them."
LATEX_MARKS = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "\N{MINUS SIGN}": r"$-$",
    ABSENT: "--",
    "\n": " ",
}


def markdown(table: Table) -> str:
    """A pipe table under its caption."""
    rule = tuple("--:" if kind == "number" else "---" for kind in column_kinds(table))
    rows = (_pipes(_markdown_row(table, i)) for i in range(len(table.rows)))
    lines = (_markdown_cell(caption_of(table)), "", _pipes(map(_markdown_cell, table.header)), _pipes(rule), *rows)
    return "\n".join(lines) + "\n"


def latex(table: Table) -> str:
    """A table environment with the rules of the booktabs package."""
    kinds = column_kinds(table)
    width = f"p{{{0.6 / max(1, kinds.count('prose')):.2f}\\linewidth}}"
    columns = "".join({"number": "r", "word": "l", "prose": width}[kind] for kind in kinds)
    lines = (
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{_latex_cell(caption_of(table))}}}",
        rf"  \label{{tab:{table.name.replace('_', '-')}}}",
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        _ampersands(map(_latex_cell, table.header)),
        r"    \midrule",
        *(_ampersands(_latex_row(table, i)) for i in range(len(table.rows))),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    )
    return "\n".join(lines) + "\n"


def comma_separated(table: Table) -> str:
    """The header and the rows, the cells as they are; a column with intervals is followed by their two ends."""
    wide = [any(interval_of(row[column]) for row in table.rows) for column in range(len(table.header))]
    header = [name for title, has in zip(table.header, wide, strict=True) for name in _titles(title)[: 3 if has else 1]]
    rows = [
        [text for cell, has in zip(row, wide, strict=True) for text in _texts(cell)[: 3 if has else 1]]
        for row in table.rows
    ]
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([header, *rows])
    return file.getvalue()


def _titles(title: str) -> tuple[str, str, str]:
    return title, f"{title}: 95% bootstrap from", f"{title}: 95% bootstrap to"


def _texts(cell: str) -> tuple[str, str, str]:
    interval = interval_of(cell)
    low, high = (f"{end:.3f}" for end in interval) if interval else ("", "")
    return cell, low, high


def interval_of(cell: str) -> tuple[float, float] | None:
    """The bootstrap interval of the mean that the cell shows; None for a single seed, and for any other text."""
    return cell.interval if isinstance(cell, Shown) else None


def caption_of(table: Table) -> str:
    """The caption, and what the brackets are where there are any."""
    has_intervals = any(interval_of(cell) for row in table.rows for cell in row)
    return f"{table.caption} {IN_BRACKETS}" if has_intervals else table.caption


def column_kinds(table: Table) -> list[Literal["number", "word", "prose"]]:
    """What each column holds, which decides how it is set: numbers to the right, prose in lines that wrap."""
    return [_kind(column) for column in zip(*(table.rows or (table.header,)), strict=True)]


def _kind(cells: tuple[str, ...]) -> Literal["number", "word", "prose"]:
    if all(NUMBER.fullmatch(cell) for cell in cells):
        return "number"
    return "prose" if max(map(len, cells)) > LONGEST_WORD else "word"


def claims_table(claims: tuple[ClaimRow, ...]) -> Table:
    """What the paper says beside what was measured."""
    return Table(
        name="claims",
        caption="Claims of the paper and what was measured; 95% intervals of the mean over seeds.",
        header=("claim", "section", "paper", "measured", "95% interval", "n", "verdict"),
        rows=tuple(
            (
                row.claim,
                row.section or ABSENT,
                row.paper,
                row.measured or ABSENT,
                show_interval(row.interval),
                str(row.n),
                row.verdict,
            )
            for row in claims
        ),
    )


def best_of_columns(values: np.ndarray, *, columns: Sequence[int]) -> frozenset[Place]:
    """Places of the highest number of each column of (rows, len(columns)) values; `columns`: where they stand in the
    table. All that are equal to it are best; a column without numbers, or of equal ones, has none."""
    return frozenset((row, column) for place, column in enumerate(columns) for row in _best(values[:, place]))


def _best(column: np.ndarray) -> list[int]:
    numbers = column[np.isfinite(column)]
    if not len(numbers) or (len(numbers) > 1 and np.ptp(numbers) == 0):
        return []
    return np.flatnonzero(column == numbers.max()).tolist()


def show_interval(interval: tuple[float, float] | None) -> str:
    """The interval as text; a dash where there is none."""
    return ABSENT if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}"


def _pipes(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def brackets(cell: str) -> str:
    """The cell's interval in brackets, after a space; nothing where it has none."""
    interval = interval_of(cell)
    return f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else ""


def _markdown_row(table: Table, row: int) -> list[str]:
    return [
        (f"**{_markdown_cell(cell)}**" if (row, column) in table.bold else _markdown_cell(cell))
        + MARKDOWN_MARKS.sub(r"\\\1", brackets(cell))
        for column, cell in enumerate(table.rows[row])
    ]


def _markdown_cell(text: str) -> str:
    return MARKDOWN_MARKS.sub(r"\\\1", " ".join(text.split()))


def _latex_row(table: Table, row: int) -> list[str]:
    cells = [_latex_cell(cell) for cell in table.rows[row]]
    strong = [rf"\textbf{{{cell}}}" if (row, column) in table.bold else cell for column, cell in enumerate(cells)]
    return [cell + _latex_cell(brackets(given)) for cell, given in zip(strong, table.rows[row], strict=True)]


def _ampersands(cells: Iterable[str]) -> str:
    return f"    {' & '.join(cells)} \\\\"


def _latex_cell(text: str) -> str:
    return "".join(LATEX_MARKS.get(letter, letter) for letter in text)
