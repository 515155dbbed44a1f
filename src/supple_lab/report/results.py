"""Results: the runs a study asked for, as the store has them, finished or not."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from supple_lab.runs.run_folder import Record, State
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.store import Store


@dataclass(frozen=True)
class RunResult:
    """One run: what was asked, how it stands, what it recorded."""

    spec: RunSpec
    state: State
    seconds: float
    reason: str  # why it failed or diverged; empty otherwise
    records: tuple[Record, ...]
    device: str = ""  # what kind of device ended it; empty while it has not ended

    def values(self, metric: str) -> np.ndarray:
        """The metric at each recorded stage, in order."""
        return np.array([record[metric] for record in self.records if metric in record], dtype=float)


@dataclass(frozen=True)
class Results:
    """All runs of a study."""

    runs: tuple[RunResult, ...]

    @property
    def finished(self) -> tuple[RunResult, ...]:
        return tuple(run for run in self.runs if run.state == "done")

    @property
    def missing(self) -> tuple[RunResult, ...]:
        return tuple(run for run in self.runs if run.state != "done")

    def methods(self) -> list[str]:
        """Names of the methods with a finished run, in the order the study named them."""
        return list(dict.fromkeys(run.spec.method.name for run in self.finished))

    def of_method(self, name: str) -> "Results":
        """The runs of one method."""
        return Results(tuple(run for run in self.runs if run.spec.method.name == name))

    def matrix(self, metric: str) -> np.ndarray:
        """Finished runs by recorded stages."""
        return np.stack([run.values(metric) for run in self.finished])


def load_results(store: Store, specs: Iterable[RunSpec]) -> Results:
    """Read what the store has of each spec."""
    return Results(tuple(_load(store, spec) for spec in specs))


def _load(store: Store, spec: RunSpec) -> RunResult:
    folder = store.folder(spec)
    status = folder.status()
    return RunResult(
        spec=spec,
        state=folder.state(),
        seconds=float(status.get("seconds", 0.0)),
        reason=str(status.get("reason", "")),
        records=tuple(folder.records()),
        device=str(status.get("device", "")),
    )
