"""Results: the runs a study asked for, as the store has them, finished or not.

Whose numbers count: runs that ended. One that diverged has values up to there, which count, and none after; no chance
accuracy is made up for it. Runs that are interrupted, failed or still going are left out, but where nothing has ended
yet, those under way are drawn as far as they are. One whose files are not what it wrote counts for nothing. The page
lists all.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from supple_lab.report.sample import Sample
from supple_lab.report.spec_fields import field_of
from supple_lab.report.strays import Stray
from supple_lab.report.written_spec import Written
from supple_lab.runs.record_log import Record
from supple_lab.runs.run_folder import State
from supple_lab.runs.spec import RunSpec

Standing = State | Literal["damaged"]  # damaged: its files are not what it wrote
Key = str | Callable[[RunSpec], Hashable]  # a field's name ("dataset", "method.relu_prob"), or any function of the spec
ENDED = ("done", "diverged")


class DamagedLog(Exception):
    """A log is not what its run wrote."""


@dataclass(frozen=True)
class RunResult:
    """One run: what was asked, how it stands, what it recorded."""

    spec: RunSpec
    state: Standing
    seconds: float
    reason: str  # why it failed or diverged, or what is damaged; empty otherwise
    records: tuple[Record, ...]  # one a stage
    device: str = ""  # what kind of device ended it; empty while it has not ended
    condition: str = ""  # the label of what it was run under; of all, where it belongs to several
    label: str = ""  # what figures call its method; empty where they use the name
    facts: dict[str, Any] = field(default_factory=dict)  # what else its status says: load.FACTS
    written: Written | None = None  # the spec as it lies in the folder: the same, already in plain values
    read_epochs: Callable[[], Iterable[Record]] = tuple  # or DamagedLog
    complaints: list[str] = field(default_factory=list, compare=False)  # of what was damaged or not there when read

    @cached_property
    def epochs(self) -> tuple[Record, ...]:
        """One record an epoch, read when first asked for: a summary does without them. None where they are damaged."""
        try:
            found = tuple(self.read_epochs())
        except DamagedLog as damage:
            self.complaints.append(str(damage))
            return ()
        if not found and self.records:
            self.complaints.append("epochs.jsonl is not there.")
        return found

    @property
    def called(self) -> str:
        """The method as the page calls it."""
        return self.label or self.spec.method.name

    def values(self, metric: str) -> np.ndarray:
        """The metric at each stage that recorded it, in order; not a number at each stage after a divergence."""
        recorded = [record[metric] for record in self.records if metric in record]
        lost = self.spec.problem.num_records - len(self.records) if self.state == "diverged" else 0
        return np.array([*recorded, *[np.nan] * lost], dtype=float)


@dataclass(frozen=True)
class Results:
    """All runs of a study, or some of them."""

    runs: tuple[RunResult, ...]
    root: Path | None = field(default=None, compare=False)  # the folder of the store they come from
    strays: tuple[Stray, ...] = field(default=(), compare=False)  # folders among them that count for nothing

    @property
    def finished(self) -> tuple[RunResult, ...]:
        return tuple(run for run in self.runs if run.state == "done")

    @property
    def missing(self) -> tuple[RunResult, ...]:
        return tuple(run for run in self.runs if run.state != "done")

    @property
    def ended(self) -> tuple[RunResult, ...]:
        """The runs that claims rest on: done, or diverged."""
        return tuple(run for run in self.runs if run.state in ENDED)

    @property
    def drawn(self) -> tuple[RunResult, ...]:
        """The runs that curves are drawn from: those that ended, or else those under way."""
        return self.ended or tuple(run for run in self.runs if run.records)

    @property
    def drawn_over_epochs(self) -> tuple[RunResult, ...]:
        """Those of them that curves over epochs are drawn from: not those whose log of epochs is damaged or gone."""
        return tuple(run for run in self.drawn if run.epochs or not run.complaints)

    def methods(self) -> list[str]:
        """Names of the methods there is anything to draw of, in the order the study named them."""
        return [name for name, results in self.group_by("method").items() if results.drawn]

    def of_method(self, name: str) -> "Results":
        """The runs of one method."""
        return self.where(method=name)

    def where(self, accept: Callable[[RunSpec], bool] | None = None, /, **conditions: Hashable) -> "Results":
        """The runs whose spec the function accepts and whose named fields have the given values."""

        def is_meant(spec: RunSpec) -> bool:
            fits = all(field_of(spec, name) == wanted for name, wanted in conditions.items())
            return fits and (accept is None or accept(spec))

        return Results(tuple(run for run in self.runs if is_meant(run.spec)))

    def group_by(self, key: Key) -> dict[Any, "Results"]:
        """The runs by what the key says of their specs, in the order of appearance."""
        groups: dict[Any, list[RunResult]] = {}
        for run in self.runs:
            groups.setdefault(field_of(run.spec, key) if isinstance(key, str) else key(run.spec), []).append(run)
        return {value: Results(tuple(members)) for value, members in groups.items()}

    def stages(self, metric: str) -> np.ndarray:
        """The stages of the matrix' columns, counted as the records count them."""
        return np.array(_columns(_tables(self.drawn, metric), self.drawn))

    def matrix(self, metric: str) -> np.ndarray:
        """Drawn runs by stages; not a number where a run has no value, as in the last column for one that diverged."""
        tables = _tables(self.drawn, metric)
        columns = _columns(tables, self.drawn)
        rows = [[table.get(column, np.nan) for column in columns] for table in tables]
        return np.array(rows, dtype=float).reshape(len(tables), len(columns))

    def epoch_matrix(self, metric: str) -> np.ndarray:
        """Drawn runs by epochs, all stages one after the other; reads every run's log of epochs."""
        rows = [[record.get(metric, np.nan) for record in run.epochs] for run in self.drawn_over_epochs]
        width = max((len(row) for row in rows), default=0)
        return np.array([row + [np.nan] * (width - len(row)) for row in rows], dtype=float).reshape(len(rows), width)

    def final(self, metric: str) -> Sample:
        """The metric at the last stage that recorded it, one number an ended run."""
        return self.sample(lambda run: end_of(run.values(metric), -1))

    def first(self, metric: str) -> Sample:
        """The metric at the first stage that recorded it, one number an ended run."""
        return self.sample(lambda run: end_of(run.values(metric), 0))

    def stage_mean(self, metric: str) -> Sample:
        """The metric's mean over stages, one number an ended run."""
        return self.sample(lambda run: float(np.mean(run.values(metric))) if len(run.values(metric)) else np.nan)

    def sample(self, number_of: Callable[[RunResult], float]) -> Sample:
        """Any number of a run, one an ended run: not a number for one that diverged before it had it."""
        return Sample(
            values=np.array([number_of(run) for run in self.ended], dtype=float),
            seeds=tuple(run.spec.seed for run in self.ended),
            runs=tuple(run.spec.run_id for run in self.ended),
        )


def end_of(values: np.ndarray, place: int) -> float:
    """The value at that place; not a number where a run (of an older version) did not record any."""
    return float(values[place]) if len(values) else float("nan")


def _tables(runs: Sequence[RunResult], metric: str) -> list[dict[int, float]]:
    return [{record.get("stage", 0): record[metric] for record in run.records if metric in record} for run in runs]


def _columns(tables: Sequence[dict[int, float]], runs: Sequence[RunResult]) -> list[int]:
    # Where no run is done, a last column without values stands for what never came, or [:, -1] would pass for the end.
    stages = sorted({stage for table in tables for stage in table})
    cut_off = bool(stages) and not any(run.state == "done" for run in runs)
    return [*stages, stages[-1] + 1] if cut_off else stages
