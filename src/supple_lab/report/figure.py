"""Figure, table and claim as data: what a study draws, before anything decides how it looks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from supple_lab.report.panel import NOTHING_YET, AnyPanel

Verdict = Literal["holds", "fails", "not decided", "not run"]
Place = tuple[int, int]  # row and column of a cell, counted from 0, the header not counted


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Panels in a grid, with a file name and a caption."""

    name: str
    caption: str
    panels: tuple[AnyPanel, ...]  # row after row
    columns: int = 3  # at most; fewer where there are fewer panels

    def filled(self) -> "Figure":
        """The panels that show anything, with a word on the others; all of them where none does."""
        drawn = tuple(panel for panel in self.panels if not panel.is_empty)
        if len(drawn) in (0, len(self.panels)):
            return self
        titles = {panel.title for panel in drawn}
        left_out: dict[str, dict[str, None]] = {}
        for panel in self.panels:
            if panel.is_empty:
                name = f"{panel.title} ({panel.y_label})" if panel.title in titles else panel.title
                left_out.setdefault(panel.nothing, {})[name] = None
        words = (f" Left out, for {why_empty(said)}: {', '.join(names)}." for said, names in left_out.items())
        return replace(self, caption=self.caption + "".join(words), panels=drawn)


def why_empty(said: str) -> str:
    """What a panel that has nothing to show says, as a clause."""
    return "nothing of it has been run" if said == NOTHING_YET else f"there are {said}"


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of text under a header, with a file name and a caption."""

    name: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    bold: frozenset[Place] = frozenset()  # cells that stand out, such as the best of a column

    def part(self, *, rows: Sequence[int], columns: Sequence[int]) -> "Table":
        """Some of the rows and columns, by their places."""
        return replace(
            self,
            header=tuple(self.header[column] for column in columns),
            rows=tuple(tuple(self.rows[row][column] for column in columns) for row in rows),
            bold=frozenset(
                (rows.index(row), columns.index(column))
                for row, column in self.bold
                if row in rows and column in columns
            ),
        )


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was measured in one comparison, or in several, and what that decides."""

    measured: str
    interval: tuple[float, float] | None
    n: int  # runs behind it; the fewest of its parts, where it has some
    verdict: Verdict
    # Of such a verdict, two-sided, where the truth lies on the threshold; 0 where it is computed, 1 where it is open.
    chance: float = 0.0
    remark: str = ""  # why the verdict is another than what was measured alone would give
    runs: tuple[str, ...] = ()  # ids of the runs it rests on
    parts: tuple["Part", ...] = ()  # the comparisons that it is decided by, where it is over several

    @property
    def brief(self) -> str:
        """What was measured and the remark, for where the parts are shown one by one or not at all."""
        return "; ".join(filter(None, (self.measured, self.remark)))

    @property
    def listed(self) -> str:
        """What was measured, with the parts by name."""
        names = {one: [part.name for part in self.parts if part.verdict == one] for one in get_args(Verdict)}
        parts = "; ".join(f"{verdict} in {', '.join(found)}" for verdict, found in names.items() if found)
        return f"{self.measured}: {parts}" if self.measured and parts else self.measured

    @property
    def told(self) -> str:
        """All of it, for where a sentence is all there is."""
        return "; ".join(filter(None, (self.listed, self.remark)))


@dataclass(frozen=True, kw_only=True)
class Part(Finding):
    """One condition of a claim over several; its own parts, where it is over several in turn."""

    name: str


@dataclass(frozen=True, kw_only=True)
class ClaimRow(Finding):
    """What the paper says, what was measured, and whether the one bears out the other."""

    claim: str
    paper: str
    section: str = ""  # where in the paper it stands
    study: str = ""  # which study tests it
    rule: str = ""  # what decides it
    rule_date: str = ""  # when that was set; empty where it is not registered
    rule_commit: str = ""  # the commit that set it
    num_before: int = 0  # how many of its runs had been made by then

    @property
    def rule_set(self) -> str:
        """When the rule was set, and whether that was after the data; empty where it is not registered."""
        return ", ".join(filter(None, (self.rule_date, self.after_data)))

    @property
    def after_data(self) -> str:
        """That the rule is younger than its runs, or some of them; empty where it is not."""
        if not self.num_before:
            return ""
        some = "" if self.num_before == len(self.runs) else f" of {self.num_before} of {len(self.runs)} runs"
        return f"after the data{some}"


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """All that a study makes of its results."""

    figures: tuple[Figure, ...]
    tables: tuple[Table, ...]
    claims: tuple[ClaimRow, ...]
    notes: tuple[str, ...] = ()  # what a reader must know first: deviations, selection on the seeds reported
