"""Figure, table and claim as data: what a study draws, before anything decides how it looks."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

Verdict = Literal["holds", "fails", "not decided", "not run"]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One line with a band: a method's values over seeds and positions."""

    method: str  # decides the colour, the same everywhere
    label: str
    x: np.ndarray  # (positions,)
    values: np.ndarray  # (seeds, positions); not finite where a seed has no value, and the line breaks there

    @property
    def mean(self) -> np.ndarray:
        """The line: the mean over seeds."""
        return self._whole.mean(axis=0)

    @property
    def low(self) -> np.ndarray:
        """The lower edge of the band: the smallest of the seeds."""
        return self._whole.min(axis=0)

    @property
    def high(self) -> np.ndarray:
        """The upper edge of the band: the largest of the seeds."""
        return self._whole.max(axis=0)

    @property
    def _whole(self) -> np.ndarray:
        # A mean over the seeds that happened to survive would flatter the method: no value where one is missing.
        return np.where(np.isfinite(self.values).all(axis=0), self.values, np.nan)


@dataclass(frozen=True, kw_only=True)
class Level:
    """A horizontal line to read curves against, such as chance."""

    label: str
    value: float


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One set of axes."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    levels: tuple[Level, ...] = ()
    y_range: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Panels side by side, with a file name and a caption."""

    name: str
    caption: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of text under a header, with a file name and a caption."""

    name: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class ClaimRow:
    """What the paper says, what was measured, and whether the one bears out the other."""

    claim: str
    paper: str
    measured: str
    interval: tuple[float, float] | None
    n: int
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """All that a study makes of its results."""

    figures: tuple[Figure, ...]
    tables: tuple[Table, ...]
    claims: tuple[ClaimRow, ...]
