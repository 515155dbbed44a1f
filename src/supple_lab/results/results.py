"""Results: the records of a study's runs, and what is read from them."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from supple_lab.data.slice import Slice
from supple_lab.files import StorageError, WrongContent
from supple_lab.rl.dqn_problem import DQN
from supple_lab.rl.off_policy_problem import OffPolicy
from supple_lab.rl.ppo_problem import PPO
from supple_lab.spec import RunSpec, Supervised
from supple_lab.store.reading import ENDED, Record, State

UNKNOWN = "an unknown method"

Written = dict[str, Any]


def method_of(written: Written) -> str:
    method = written.get("method")
    return str(method.get("kind", UNKNOWN)) if isinstance(method, dict) else UNKNOWN


def dataset_of(spec: RunSpec) -> str:
    """The dataset's name, a slice with that of what it is cut from; without a dataset, the game's or the problem's."""
    match spec.problem:
        case DQN(game=game):
            return getattr(game, "title", game.name)
        case PPO(task=task) | OffPolicy(task=task):
            return getattr(task, "title", task.name)
        case Supervised(dataset=Slice(of=whole)):
            return f"slice of {whole.name}"
        case Supervised(dataset=dataset):
            return dataset.name
    return spec.problem.name


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What a claim is decided by. numpy reads it as an array of its values."""

    values: np.ndarray  # (runs,); not a number for a run that diverged before it had one
    seeds: tuple[int, ...]
    runs: tuple[str, ...]  # ids, one a value; all that stand behind them if a value is made of several runs

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype)

    def minus(self, other: "Sample") -> "Sample":
        """The differences within each seed that both have: same data, same initialisation, so much noise cancels."""
        return by_seed((self, other), lambda pair: pair[0] - pair[1])

    @property
    def known(self) -> np.ndarray:
        """The values of runs that have one: those that did not diverge before."""
        return self.values[np.isfinite(self.values)]

    def where_known(self) -> "Sample":
        return self.of_seeds([seed for seed, value in zip(self.seeds, self.values, strict=True) if np.isfinite(value)])

    def of_seeds(self, seeds: Collection[int]) -> "Sample":
        places = [place for place, seed in enumerate(self.seeds) if seed in seeds]
        return Sample(
            values=self.values[places],
            seeds=tuple(self.seeds[place] for place in places),
            runs=tuple(dict.fromkeys(run for place in places for run in self._behind(place))),
        )

    def _behind(self, place: int) -> tuple[str, ...]:
        return (self.runs[place],) if len(self.runs) == len(self.values) else self.runs

    def _places(self) -> dict[int, int]:
        repeated = [seed for seed, number in Counter(self.seeds).items() if number > 1]
        if repeated:
            raise ValueError(
                f"a difference by seed needs one run a seed; seed {repeated[0]} has {self.seeds.count(repeated[0])}. "
                "Narrow the results down with where(), or choose a configuration with select()."
            )
        return {seed: place for place, seed in enumerate(self.seeds)}


def by_seed(samples: Sequence[Sample], number_of: Callable[[np.ndarray], float]) -> Sample:
    """The number made of the samples' values for a seed, in the samples' order; for the seeds that all of them have."""
    tables = [sample._places() for sample in samples]
    seeds = [seed for seed in tables[0] if all(seed in table for table in tables)] if samples else []
    pairs = [[(sample, table[seed]) for sample, table in zip(samples, tables, strict=True)] for seed in seeds]
    return Sample(
        values=np.array([number_of(np.array([own.values[i] for own, i in each])) for each in pairs], dtype=float),
        seeds=tuple(seeds),
        runs=tuple(dict.fromkeys(run for each in pairs for own, i in each for run in own._behind(i))),
    )


Standing = State | Literal["damaged"]  # damaged: its files are not what it wrote
Key = Callable[[RunSpec], Hashable]
ALL_STAGES = slice(None)


@dataclass(frozen=True)
class RunResult:
    """One run: what was asked, how it stands, what it recorded."""

    spec: RunSpec
    state: Standing
    seconds: float
    reason: str  # why it failed or diverged, or what is damaged; empty otherwise
    records: tuple[Record, ...]  # one a stage
    device: str = ""  # what kind of device ended it; empty while it has not ended
    condition: str = ""  # the label of what it was run under; of all, if it belongs to several
    label: str = ""  # what figures call its method; empty if they use the name
    facts: dict[str, Any] = field(default_factory=dict)  # what else its status says: load.FACTS
    written: Written | None = None  # the spec as it lies in the folder: the same, already in plain values
    read_epochs: Callable[[], Iterable[Record]] = tuple  # or WrongContent
    complaints: list[str] = field(default_factory=list, compare=False)  # of what was damaged or not there when read

    @cached_property
    def epochs(self) -> tuple[Record, ...]:
        """One record an epoch, read when first asked for: a summary does without them. None if they are damaged."""
        try:
            found = tuple(self.read_epochs())
        except (WrongContent, StorageError) as damage:
            self.complaints.append(str(damage))
            return ()
        if not found and self.records:
            self.complaints.append("epochs.jsonl is not there.")
        return found

    @property
    def called(self) -> str:
        return self.label or self.spec.method.name

    def by_stage(self, metric: str) -> dict[int, float]:
        return {record.get("stage", 0): record[metric] for record in self.records if metric in record}

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

    def where(self, accept: Callable[[RunSpec], bool]) -> "Results":
        return Results(tuple(run for run in self.runs if accept(run.spec)))

    def group_by(self, key: Key) -> dict[Any, "Results"]:
        """The runs by what the key says of their specs, in the order of appearance."""
        groups: dict[Any, list[RunResult]] = {}
        for run in self.runs:
            groups.setdefault(key(run.spec), []).append(run)
        return {value: Results(tuple(members)) for value, members in groups.items()}

    def by_method(self) -> dict[str, "Results"]:
        return self.group_by(lambda spec: spec.method.name)

    def stages(self, metric: str) -> np.ndarray:
        """The stages of the matrix' columns, counted as the records count them."""
        stages = sorted({stage for run in self.drawn for stage in run.by_stage(metric)})
        # If no run is done, a last column without values stands for what never came, or [:, -1] would pass for the end.
        cut_off = bool(stages) and not any(run.state == "done" for run in self.drawn)
        return np.array([*stages, stages[-1] + 1] if cut_off else stages)

    def matrix(self, metric: str) -> np.ndarray:
        """Drawn runs by stages; not a number if a run has no value, as in the last column for one that diverged."""
        stages = self.stages(metric).tolist()
        rows = [
            [values.get(stage, np.nan) for stage in stages] for values in (run.by_stage(metric) for run in self.drawn)
        ]
        return np.array(rows, dtype=float).reshape(len(rows), len(stages))

    def epoch_matrix(self, metric: str, *, first_stage: int = 0) -> np.ndarray:
        """Drawn runs by epochs, stages from the first on one after the other; none whose log is damaged or gone."""
        rows = [
            [record.get(metric, np.nan) for record in run.epochs if record.get("stage", 0) >= first_stage]
            for run in self.drawn
            if run.epochs or not run.complaints  # the log is read here
        ]
        width = max((len(row) for row in rows), default=0)
        return np.array([row + [np.nan] * (width - len(row)) for row in rows], dtype=float).reshape(len(rows), width)

    def final(self, metric: str) -> Sample:
        """The metric at the last stage that recorded it, one number an ended run."""
        return self.sample(lambda run: float([np.nan, *run.values(metric)][-1]))  # older versions recorded less

    def first(self, metric: str) -> Sample:
        """The metric at the first stage that recorded it, one number an ended run."""
        return self.sample(lambda run: float([*run.values(metric), np.nan][0]))

    def stage_mean(self, metric: str, stages: slice = slice(None)) -> Sample:
        """The metric's mean over stages, one number an ended run."""

        def mean(run: RunResult) -> float:
            values = run.values(metric)[stages]
            return float(values.mean()) if len(values) else np.nan

        return self.sample(mean)

    def sample(self, number_of: Callable[[RunResult], float]) -> Sample:
        """Any number of a run, one an ended run: not a number for one that diverged before it had it."""
        return Sample(
            values=np.array([number_of(run) for run in self.ended], dtype=float),
            seeds=tuple(run.spec.seed for run in self.ended),
            runs=tuple(run.spec.run_id for run in self.ended),
        )
