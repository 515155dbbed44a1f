"""What an engine costs: the time of its workers that is not spent in runs, over a sweep of equal runs."""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from supple.methods.activations import UseAID
from supple_lab import lookup
from supple_lab.data.digits import Digits
from supple_lab.models.mlp import MLP
from supple_lab.runs.optimizer import Adam
from supple_lab.runs.problem import Supervised
from supple_lab.runs.run import execute
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.store import Store
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.sweep.executor import EngineMissing, Executor
from supple_lab.sweep.sweep import execute_all

WORKERS = {"inline": 1, "process": 2, "ray": 2}
RUNS_PER_WORKER = {"inline": 4, "process": 12, "ray": 12}  # enough for the start of an engine not to be most of it
SECONDS_PER_RUN = 10.0
STAGES_TO_CALIBRATE = 4


@dataclass(frozen=True)
class SweepRow:
    """One engine on one sweep."""

    engine: str
    workers: int
    runs: int
    seconds_per_run: float
    wall_seconds: float  # from the start of the engine to the end of its last run
    start_seconds: float  # of these, until the first run began
    overhead_per_run: float  # seconds of a worker that went elsewhere after that
    efficiency: float  # the sum of run times over workers times wall time, the start included


@dataclass(frozen=True)
class NotMeasured:
    """An engine that could not be measured here."""

    engine: str
    reason: str


def bench_sweep(*, seconds_per_run: float, only: str = "") -> Iterator[SweepRow | NotMeasured]:
    """Measure each engine whose name holds the text, one after the other."""
    names = [name for name in WORKERS if only in name]
    stages = stages_of(seconds_per_run)
    for name in names:
        yield bench_engine(lookup.find(Executor, name), stages=stages)


def bench_engine(engine: type[Executor], *, stages: int) -> SweepRow | NotMeasured:
    """Execute equal runs in a folder of their own, and compare their times with the time it took."""
    workers = WORKERS[engine.name]
    specs = [spec_of(stages, seed=seed) for seed in range(workers * RUNS_PER_WORKER[engine.name])]
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(Path(folder))
        try:
            engine.check_installed()
            started = time.time()
            could_not = execute_all(specs, engine(store, device="cpu", jobs=workers))
        except EngineMissing as missing:
            return NotMeasured(engine.name, str(missing))
        wall = time.time() - started
        if could_not:
            return NotMeasured(engine.name, could_not[0].reason)
        statuses = [store.folder(spec).status() for spec in specs]
        began = min(status["updated"] - status["seconds"] for status in statuses)
        return row_of(engine.name, [status["seconds"] for status in statuses], wall=wall, start=began - started)


def row_of(engine: str, seconds: list[float], *, wall: float, start: float) -> SweepRow:
    """The numbers from the times of the runs and of the whole."""
    workers = WORKERS[engine]
    return SweepRow(
        engine=engine,
        workers=workers,
        runs=len(seconds),
        seconds_per_run=sum(seconds) / len(seconds),
        wall_seconds=wall,
        start_seconds=start,
        overhead_per_run=(workers * (wall - start) - sum(seconds)) / len(seconds),
        efficiency=sum(seconds) / (workers * wall),
    )


def stages_of(seconds: float) -> int:
    """How many stages a run must have to take that long here, alone on its core."""
    spec = spec_of(STAGES_TO_CALIBRATE, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(Path(folder))
        execute(spec_of(1, seed=0), store)  # the first run of a process imports and compiles
        execute(spec, store)
        return max(1, round(seconds * STAGES_TO_CALIBRATE / store.folder(spec).status()["seconds"]) + 1)


def spec_of(stages: int, *, seed: int) -> RunSpec:
    """A run on one core that is bound by arithmetic, as runs of the paper are."""
    scenario = RandomLabel(num_stages=stages, epochs=5, num_images=1600, batch_size=64)
    return RunSpec(
        problem=Supervised(scenario=scenario, dataset=Digits()),
        model=MLP(width=128, num_hidden=2),
        method=UseAID(),
        optimizer=Adam(learning_rate=1e-3),
        seed=seed,
    )
