"""Figure, table and claim as data: what a study draws, before anything decides how it looks."""

from dataclasses import dataclass, replace
from typing import Literal

from supple_lab.report.panel import AnyPanel

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
        empty = [panel.title for panel in self.panels if panel.is_empty]
        if not empty or len(empty) == len(self.panels):
            return self
        caption = f"{self.caption} Left out, for nothing of it has been run: {', '.join(dict.fromkeys(empty))}."
        return replace(self, caption=caption, panels=tuple(panel for panel in self.panels if not panel.is_empty))


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of text under a header, with a file name and a caption."""

    name: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    bold: frozenset[Place] = frozenset()  # cells that stand out, such as the best of a column


@dataclass(frozen=True, kw_only=True)
class Part:
    """One comparison of a claim over several conditions."""

    name: str
    measured: str
    interval: tuple[float, float] | None
    n: int
    verdict: Verdict
    runs: tuple[str, ...] = ()  # ids of the runs it rests on


@dataclass(frozen=True, kw_only=True)
class ClaimRow:
    """What the paper says, what was measured, and whether the one bears out the other."""

    claim: str
    paper: str
    measured: str
    interval: tuple[float, float] | None
    n: int  # runs behind it; the fewest of its parts, where it has some
    verdict: Verdict
    section: str = ""  # where in the paper it stands
    study: str = ""  # which study tests it
    runs: tuple[str, ...] = ()  # ids of the runs it rests on
    rule: str = ""  # what decides it
    parts: tuple["Part", ...] = ()  # the single comparisons that it is decided by, where it is over several
    chance: float = 0.0  # of such a verdict, two-sided, where the truth lies on the threshold; 0 where it is computed

    @property
    def brief(self) -> str:
        """What was measured, without a list of the parts, for where these are shown one by one or not at all."""
        return self.measured.partition(": ")[0] if self.parts else self.measured


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """All that a study makes of its results."""

    figures: tuple[Figure, ...]
    tables: tuple[Table, ...]
    claims: tuple[ClaimRow, ...]
    notes: tuple[str, ...] = ()  # what a reader must know first: deviations, selection on the seeds reported
