"""Panels as data: curves, bars, distributions and heat maps, before anything decides how they look."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Literal, get_args

import numpy as np

from supple_lab.report.colours import Look, look_of_repeat
from supple_lab.results.intervals import SEED, bootstrap_interval, bootstrap_intervals, mean_and_std

Scale = Literal["linear", "symlog"]  # symlog: linear around zero, logarithmic far from it on both sides
Band = Literal["range", "deviation"]  # lowest to highest seed, one standard deviation
BANDS: dict[Band, tuple[str, str, str]] = {  # the band in words, and its edges
    "range": ("lowest to highest", "lowest", "highest"),
    "deviation": ("± one std", "mean − std", "mean + std"),
}
Range = tuple[float, float]
NOTHING_YET = "no finished runs yet"  # what an empty panel says
NO_EPOCHS = "finished runs, but no logs of epochs"  # as in a store that was made of a report


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line with a band: a mean over seeds at each position, or what was computed over more, such as an IQM."""

    method: str  # decides the colour, the same everywhere
    label: str
    x: np.ndarray  # (positions,)
    middle: np.ndarray  # (positions,); not finite if there is no value, and the line breaks there
    low: np.ndarray
    high: np.ndarray
    n: int  # how many runs stand behind it
    statistic: str = "mean"  # what the line is
    band_words: str = "± one std"  # what the band is
    edges: tuple[str, str] = ("mean − std", "mean + std")  # what low and high are
    values: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))  # (seeds, positions), if it is their mean
    resampled: np.ndarray | None = None  # (2, positions): its 95% bootstrap interval, if that is known without them

    @classmethod
    def over_seeds(
        cls, *, method: str, label: str, x: np.ndarray, values: np.ndarray, band: Band = "deviation"
    ) -> "Line":
        """The mean of (seeds, positions) values: none if a seed has none, or those that survived would flatter."""
        n, whole = len(values), np.where(np.isfinite(values).all(axis=0), values, np.nan)
        middle, words, *edges = whole.sum(axis=0) / max(1, n), *BANDS[band]
        low = high = np.full(len(x), np.nan)
        if n > 1:
            reach = whole.std(axis=0, ddof=1)
            low, high = (whole.min(axis=0), whole.max(axis=0)) if band == "range" else (middle - reach, middle + reach)
        return cls(
            method=method,
            label=label,
            x=x,
            middle=middle,
            low=low,
            high=high,
            n=n,
            statistic="mean" if n > 1 else "value",
            band_words=words,
            edges=(edges[0], edges[1]),
            values=values,
        )

    @property
    def has_band(self) -> bool:
        return bool(np.isfinite(self.low).any())

    @cached_property
    def bootstrap(self) -> np.ndarray | None:
        """The 95% bootstrap interval of a mean over seeds; None for a single seed, which has no spread."""
        if len(self.values) > 1:
            return np.array(bootstrap_intervals(self.values, np.random.default_rng(SEED)))
        return self.resampled

    def every(self, step: int) -> "Line":
        """One position in so many; the last is always among them."""
        kept = slice((len(self.x) - 1) % step, None, step)
        arrays = {name: getattr(self, name) for name in ("x", "middle", "low", "high", "values", "resampled")}
        return replace(self, **{name: array[..., kept] for name, array in arrays.items() if array is not None})


@dataclass(frozen=True, kw_only=True)
class Level:
    """A dashed horizontal line to read curves against: chance, full reset, a value that the paper prints."""

    label: str
    value: float


@dataclass(frozen=True, kw_only=True)
class _PanelWithAxes(ABC):
    title: str
    x_label: str
    y_label: str
    levels: tuple[Level, ...] = ()
    y_range: Range | None = None
    nothing: str = NOTHING_YET  # said if there is nothing to draw

    @property
    @abstractmethod
    def entries(self) -> "Sequence[Line | Histogram]":
        """All that has a place in the legend."""

    @property
    def is_empty(self) -> bool:
        return not self.entries


@dataclass(frozen=True, kw_only=True)
class Panel(_PanelWithAxes):
    """Curves on one set of axes."""

    curves: tuple[Line, ...]
    y_scale: Scale = "linear"

    @property
    def entries(self) -> tuple[Line, ...]:
        return self.curves


@dataclass(frozen=True, kw_only=True)
class Bars(_PanelWithAxes):
    """Groups of bars with error bars: at each position one bar a method."""

    positions: tuple[str, ...]  # names of the groups, from left to right
    bars: tuple[Line, ...]  # the x of each are places in positions, counted from 0

    @property
    def entries(self) -> tuple[Line, ...]:
        return self.bars


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """How one method's values are spread at one position."""

    method: str
    label: str
    position: str
    edges: np.ndarray  # (bins + 1,), rising
    shares: np.ndarray  # (bins,) of all values
    quartiles: tuple[float, float, float]  # Q1, Q2 (the median) and Q3 of the values themselves, not of the bins
    n: int = 1  # runs it was gathered from


@dataclass(frozen=True, kw_only=True)
class Distribution(_PanelWithAxes):
    """Histograms on their sides, at several positions, with their quartiles marked."""

    histograms: tuple[Histogram, ...]  # positions appear in the order in which they are first named
    y_scale: Scale = "linear"

    @property
    def entries(self) -> tuple[Histogram, ...]:
        return self.histograms

    @property
    def positions(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(histogram.position for histogram in self.histograms))


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """A mean over seeds in each cell of a grid, as colour and as text."""

    nothing: ClassVar[str] = NOTHING_YET
    decimals: ClassVar[int] = 3
    entries: ClassVar[tuple[Line, ...]] = ()

    title: str
    x_label: str
    y_label: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]  # from top to bottom
    samples: tuple[tuple[np.ndarray, ...], ...]  # rows of cells, each (seeds,); not finite if a seed has no value
    reference: Level | None = None  # marked on the colour bar; cells above it are bold
    value_label: str = ""  # of the colour bar

    @property
    def is_empty(self) -> bool:
        return not any(len(cell) for row in self.samples for cell in row)

    @property
    def values(self) -> np.ndarray:
        """The means: (rows, columns); not finite if no run has ended or one has no value."""
        return self._numbers[..., 0]

    @property
    def deviations(self) -> np.ndarray:
        """The standard deviations, printed smaller under the means: (rows, columns); not finite for a single seed."""
        return self._numbers[..., 1]

    def bootstrap(self, row: int, column: int) -> Range | None:
        """The 95% bootstrap interval of a cell's mean over seeds; None for a single seed, which has no spread."""
        return bootstrap_interval(self.samples[row][column], np.random.default_rng(SEED))

    @cached_property
    def _numbers(self) -> np.ndarray:
        pairs = [mean_and_std(cell) if len(cell) else (np.nan, np.nan) for row in self.samples for cell in row]
        return np.array(pairs, dtype=float).reshape(len(self.rows), len(self.columns), 2)


AnyPanel = Panel | Bars | Distribution | HeatMap
Key = tuple[str, str]  # method and label


def key_of(entry: Line | Histogram) -> Key:
    """What makes two curves of a figure entries of their own."""
    return entry.method, entry.label


def legend_of(figure: "Figure") -> dict[Key, Look]:
    """A look per entry, in the order of appearance; a method's further entries differ in dashes and marker."""
    repeats: Counter[str] = Counter()
    colours: Counter[str] = Counter()  # bars have nothing else: two methods of one colour differ in their fill
    looks: dict[Key, Look] = {}
    for key in (key_of(entry) for panel in figure.panels for entry in panel.entries):
        if key not in looks:
            look = look_of_repeat(key[0], repeats[key[0]])
            looks[key] = replace(look, repeat=colours[look.light])
            repeats[key[0]] += 1
            colours[look.light] += 1
    return looks


Verdict = Literal["holds", "fails", "not decided", "not run"]
Place = tuple[int, int]  # row and column of a cell, counted from 0, the header not counted


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Panels in a grid, with a file name and a caption."""

    name: str
    caption: str
    panels: tuple[AnyPanel, ...]  # row after row
    columns: int = 3  # at most; fewer if there are fewer panels

    def filled(self) -> "Figure":
        """The panels that show anything, with a word on the others; all of them if none does."""
        drawn = tuple(panel for panel in self.panels if not panel.is_empty)
        if len(drawn) in (0, len(self.panels)):
            return self
        titles = {panel.title for panel in drawn}
        left_out: dict[str, dict[str, None]] = {}
        for panel in filter(lambda panel: panel.is_empty, self.panels):
            why = "nothing of it has been run" if panel.nothing == NOTHING_YET else f"there are {panel.nothing}"
            name = f"{panel.title} ({panel.y_label})" if panel.title in titles else panel.title
            left_out.setdefault(why, {})[name] = None
        words = (f" Left out, for {why}: {', '.join(names)}." for why, names in left_out.items())
        return replace(self, caption=self.caption + "".join(words), panels=drawn)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of text under a header, with a file name and a caption."""

    name: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    bold: frozenset[Place] = frozenset()  # cells that stand out, such as the best of a column

    def part(self, *, rows: Sequence[int], columns: Sequence[int]) -> "Table":
        return replace(
            self,
            header=tuple(self.header[column] for column in columns),
            rows=tuple(tuple(self.rows[row][column] for column in columns) for row in rows),
            bold=frozenset((rows.index(i), columns.index(j)) for i, j in self.bold if i in rows and j in columns),
        )


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was measured in one comparison, or in several, and what that decides."""

    measured: str
    interval: tuple[float, float] | None
    n: int  # runs behind it; the fewest of its parts, if it has some
    verdict: Verdict
    # Of such a verdict, two-sided, if the truth lies on the threshold; 0 if it is computed, 1 if it is open.
    chance: float = 0.0
    remark: str = ""  # why the verdict is another than what was measured alone would give
    runs: tuple[str, ...] = ()  # ids of the runs it rests on
    parts: tuple["Part", ...] = ()  # the comparisons that it is decided by, if it is over several

    @property
    def brief(self) -> str:
        """What was measured, and the remark."""
        return "; ".join(filter(None, (self.measured, self.remark)))

    @property
    def listed(self) -> str:
        """What was measured, with the parts by name."""
        names = {one: [part.name for part in self.parts if part.verdict == one] for one in get_args(Verdict)}
        parts = "; ".join(f"{verdict} in {', '.join(found)}" for verdict, found in names.items() if found)
        return f"{self.measured}: {parts}" if self.measured and parts else self.measured

    @property
    def in_full(self) -> str:
        """What was measured, with the parts by name, and the remark."""
        return "; ".join(filter(None, (self.listed, self.remark)))


@dataclass(frozen=True, kw_only=True)
class Part(Finding):
    """One condition of a claim over several; its own parts, if it is over several in turn."""

    name: str


@dataclass(frozen=True, kw_only=True)
class ClaimRow(Finding):
    """What the paper says, what was measured, and whether the one bears out the other."""

    claim: str
    paper: str
    section: str = ""  # where in the paper it stands
    study: str = ""  # which study tests it
    rule: str = ""  # what decides it
    rule_date: str = ""  # when that was set; empty if it is not registered
    rule_commit: str = ""  # the commit that set it
    num_before: int = 0  # how many of its runs had been made by then

    @property
    def rule_set(self) -> str:
        """When the rule was set, and whether that was after the data; empty if it is not registered."""
        return ", ".join(filter(None, (self.rule_date, self.after_data)))

    @property
    def after_data(self) -> str:
        """That the rule is younger than its runs, or some of them; empty if it is not."""
        if not self.num_before:
            return ""
        some = "" if self.num_before == len(self.runs) else f" of {self.num_before} of {len(self.runs)} runs"
        return f"after the data{some}"


@dataclass(frozen=True, kw_only=True)
class StudyReport:
    """All that a study makes of its results."""

    figures: tuple[Figure, ...]
    tables: tuple[Table, ...]
    claims: tuple[ClaimRow, ...]
    notes: tuple[str, ...] = ()  # what a reader must know first: deviations, selection on the seeds reported
