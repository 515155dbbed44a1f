"""Tables as Markdown, LaTeX and CSV. What people read has a true minus sign; files for programs keep the hyphen."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import numpy as np

from supple_lab.report.figure import ClaimRow, Place, Table
from supple_lab.results.intervals import FormattedMean
from supple_lab.results.select import REPORTED_SEEDS

SIGN = "\N{MINUS SIGN}"
NEGATIVE = re.compile(r"(?<![\w.])-(?=\d)")  # a hyphen that is a minus: not that of 1e-05, of 5.1-5.2 or of warm-start


def minus(text: str) -> str:
    """The text with a true minus sign before each of its negative numbers."""
    return NEGATIVE.sub(SIGN, text)


Kind = Literal["number", "word", "prose"]  # of a column
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
    "/": r"\slash{}",  # a path may break there
    SIGN: r"$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≈": r"$\approx$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "²": r"$^2$",
    ABSENT: r"\textendash{}",
    "\n": " ",
}


def markdown(table: Table) -> str:

    def escaped(text: str) -> str:
        return MARKDOWN_MARKS.sub(r"\\\1", " ".join(text.split()))

    rule = ["--:" if kind == "number" else "---" for kind in column_kinds(table)]
    rows = (map(escaped, table.header), rule, *_rows(table, escaped, strong="**{}**"))
    return "\n".join((escaped(caption_of(table)), "", *(f"| {' | '.join(row)} |" for row in rows))) + "\n"


def latex(table: Table, *, label: str = "") -> str:
    """The table with the rules of the booktabs package; one with prose may break across pages. Label: else its name."""
    kinds = column_kinds(table)
    width = 0.6 / max(1, kinds.count("prose"))  # of the line, together: the rest is for words, numbers and gaps
    prose = rf">{{\raggedright\arraybackslash}}p{{{width:.2f}\linewidth}}"
    columns = "".join({"number": "r", "word": "l", "prose": prose}[kind] for kind in kinds)
    caption = rf"\caption{{{_latex_cell(caption_of(table))}}}"
    label = rf"\label{{tab:{(label or table.name).replace('_', '-')}}}"
    header = (r"    \toprule", _ampersands(map(_latex_cell, table.header)), r"    \midrule")
    rows = [_ampersands(row) for row in _rows(table, _latex_cell, strong=r"\textbf{{{}}}")]
    if "prose" in kinds:
        lines = (
            r"% needs \usepackage{array,booktabs,longtable}",
            rf"\begin{{longtable}}{{{columns}}}",
            rf"    {caption}{label} \\",
            *(*header, r"    \endfirsthead", *header, r"    \endhead", r"    \bottomrule", r"    \endlastfoot"),
            *filter(None, ["\n    \\addlinespace\n".join(rows)]),  # or one row's lines run into the next one's
            r"\end{longtable}",
        )
    else:
        lines = (
            r"% needs \usepackage{booktabs,graphicx}",
            r"\begin{table}",
            r"  \centering",
            f"  {caption}",
            f"  {label}",
            r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",  # no wider than the text
            rf"  \begin{{tabular}}{{{columns}}}",
            *(*header, *rows, r"    \bottomrule", r"  \end{tabular}}"),
            r"\end{table}",
        )
    return "\n".join(lines) + "\n"


def _rows(table: Table, written: Callable[[str], str], *, strong: str) -> list[list[str]]:
    """The cells as written, bold ones within `strong`, each followed by its interval in brackets, if it has one."""
    return [
        [
            (strong if (i, j) in table.bold else "{}").format(written(cell))
            + (f" {written(f'[{ends[0]}, {ends[1]}]')}" if (ends := ends_of(cell)) else "")
            for j, cell in enumerate(row)
        ]
        for i, row in enumerate(table.rows)
    ]


def _ampersands(cells: Iterable[str]) -> str:
    row = " & ".join(cells)
    shield = "{}" if row.startswith(("[", "*")) else ""  # or the row before takes them for an argument of its end
    return f"    {shield}{row} \\\\"


def _latex_cell(text: str) -> str:
    marked = "".join(LATEX_MARKS.get(letter, letter) for letter in minus(text))
    return marked.replace("--", "-{}-")  # an option of a command, not a dash


def comma_separated(table: Table) -> str:
    """The header and the rows, the cells as they are; a column with intervals is followed by their two ends."""
    columns: list[list[str]] = []
    for place, title in enumerate(table.header):
        cells = [row[place] for row in table.rows]
        columns.append([title, *cells])
        if any(map(ends_of, cells)):
            low, high = zip(*(ends_of(cell) or ("", "") for cell in cells), strict=True)
            columns += [[f"{title}: 95% bootstrap from", *low], [f"{title}: 95% bootstrap to", *high]]
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(zip(*columns, strict=True))
    return file.getvalue()


def ends_of(cell: str) -> tuple[str, str] | None:
    """Both ends of a mean's bootstrap interval, to as many decimals; None for a single seed and for other text."""
    if not isinstance(cell, FormattedMean) or cell.interval is None:
        return None
    low, high = (f"{end:.{cell.decimals}f}" for end in cell.interval)
    return low, high


def caption_of(table: Table) -> str:
    """The caption, and what the brackets are, if there are any."""
    has_intervals = any(ends_of(cell) for row in table.rows for cell in row)
    return f"{table.caption} {IN_BRACKETS}" if has_intervals else table.caption


def column_kinds(table: Table) -> list[Kind]:
    """What each column holds, which decides how it is set: numbers to the right, prose in lines that wrap."""
    columns = zip(*(table.rows or (table.header,)), strict=True)
    return [
        "number"
        if all(NUMBER.fullmatch(cell) for cell in column)
        else "prose"
        if max(map(len, column)) > LONGEST_WORD
        else "word"
        for column in columns
    ]


def best_of_columns(values: np.ndarray, *, columns: Sequence[int]) -> frozenset[Place]:
    """Places of the highest number of each column of (rows, len(columns)) values; `columns`: where they stand in the
    table. All that are equal to it are best; a column without numbers, or of equal ones, has none."""
    best: set[Place] = set()
    for column, given in zip(columns, values.T, strict=True):
        numbers = given[np.isfinite(given)]
        if len(numbers) == 1 or (len(numbers) and np.ptp(numbers)):
            best |= {(row, column) for row in np.flatnonzero(given == numbers.max()).tolist()}
    return frozenset(best)


def show_interval(interval: tuple[float, float] | None) -> str:
    return ABSENT if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}"


CAPTION = "Claims of the paper and what was measured; 95% intervals of the mean over seeds."
SELECTED = f"Some settings were selected on {REPORTED_SEEDS}, so that their methods look better than they are."


def claims_table(claims: Sequence[ClaimRow], *, notes: Sequence[str] = ()) -> Table:
    """A row a claim; notes: the study's."""
    return Table(
        name="claims",
        caption=caption_with(notes),
        header=("claim", "section", "paper", "measured", "95% interval", "n", "verdict", "rule set", "note"),
        rows=tuple(
            (
                row.claim,
                row.section or ABSENT,
                row.paper,
                row.in_full or ABSENT,
                show_interval(row.interval),
                str(row.n),
                row.verdict,
                row.rule_set or ABSENT,
                selection_of(row, notes) or ABSENT,
            )
            for row in claims
        ),
    )


def printed_claims(claims: Sequence[ClaimRow], *, notes: Sequence[str] = ()) -> Table:
    """The same for a page of paper, which has room for four columns: without lists of the parts; the caption notes."""
    return Table(
        name="claims",
        caption=caption_with(notes),
        header=("claim", "the paper says", "measured", "verdict"),
        rows=tuple(
            (
                row.claim,
                f"{row.paper} ({row.section})" if row.section else row.paper,
                _measured(row),
                f"{row.verdict} (rule set {row.after_data})" if row.after_data else row.verdict,
            )
            for row in claims
        ),
    )


def _measured(row: ClaimRow) -> str:
    interval = f"95% interval {show_interval(row.interval)}" if row.interval else ""
    return "; ".join(filter(None, (row.brief, interval, f"n = {row.n}" if row.n else ""))) or ABSENT


def selection_of(row: ClaimRow, notes: Sequence[str]) -> str:
    """What a claim's verdict must not be read without, if settings were selected on its seeds; else nothing."""
    return f"some settings were selected on {REPORTED_SEEDS}" if row.n and on_reported_seeds(notes) else ""


def on_reported_seeds(notes: Sequence[str]) -> bool:
    """Whether a study's notes tell of a selection on the seeds that are reported."""
    return any(REPORTED_SEEDS in note for note in notes)


def caption_with(notes: Sequence[str]) -> str:
    """The caption, and what the notes say that a verdict must not be read without."""
    selected = SELECTED if on_reported_seeds(notes) else ""
    tell = "A note on the study's page tells" if len(notes) == 1 else f"{len(notes)} notes on the study's page tell"
    return " ".join(filter(None, (CAPTION, selected, f"{tell} what differs from the paper." if notes else "")))
