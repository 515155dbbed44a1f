"""What an engine costs: the time of its workers that is not spent in runs, over a sweep of equal runs."""

import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from supple.methods import UseAID
from supple_lab import registry
from supple_lab.data.digits import Digits
from supple_lab.models.mlp import MLP
from supple_lab.optimizer import Adam
from supple_lab.run.run import execute
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.spec import RunSpec, Supervised
from supple_lab.store.store import Store
from supple_lab.sweep.executor import EngineMissing, Executor
from supple_lab.sweep.sweep import execute_all, failures

WORKERS = {"inline": 1, "process": 2, "ray": 2}
RUNS_PER_WORKER = {"inline": 4, "process": 12, "ray": 12}  # enough for the start of an engine not to be most of it
NUM_SWEEPS = 3  # of each engine, for the spread
SECONDS_PER_RUN = 10.0
STAGES_TO_CALIBRATE = 4


@dataclass(frozen=True)
class OneSweep:
    seconds: tuple[float, ...]  # of each run
    wall: float
    start: float


@dataclass(frozen=True)
class SweepRow:
    """One engine: medians over its sweeps."""

    engine: str
    workers: int
    runs: int  # of each sweep
    sweeps: int
    seconds_per_run: float
    seconds_range: tuple[float, float]  # of the shortest and the longest run
    wall_seconds: float  # from the start of the engine to the end of its last run
    start_seconds: float  # of these, until the first run began
    overhead_per_run: float  # seconds of a worker that went elsewhere after that
    efficiency: float  # the sum of run times over workers times wall time, the start included
    efficiency_range: tuple[float, float]  # of the worst and the best sweep


def bench_sweep(*, seconds_per_run: float, only: str = "") -> Iterator[SweepRow]:
    """Sweep equal runs several times with each engine whose name holds the text; say of one why it cannot be."""
    if not (names := [name for name in WORKERS if only in name]):
        raise registry.UnknownName(registry.no_such("engine that is measured", only, WORKERS))
    stages = stages_of(seconds_per_run)
    for name in names:
        try:
            yield row_of(name, [measure_sweep(registry.find(Executor, name), stages=stages) for _ in range(NUM_SWEEPS)])
        except (EngineMissing, RuntimeError) as reason:
            print(f"not measured: {name}: {reason}")


def measure_sweep(engine: type[Executor], *, stages: int) -> OneSweep:
    """Execute equal runs in a new folder, and keep their times and the time it all took."""
    engine.check_installed()
    workers = WORKERS[engine.name]
    specs = [spec_of(stages, seed=seed) for seed in range(workers * RUNS_PER_WORKER[engine.name])]
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(Path(folder))
        started = time.time()
        could_not = execute_all(specs, engine(store, device="cpu", jobs=workers))
        wall = time.time() - started
        if failed := could_not + failures(store, specs):
            raise RuntimeError(failed[0].reason)
        statuses = [store.folder(spec).status() for spec in specs]
        began = min(status["updated"] - status["seconds"] for status in statuses)
        return OneSweep(tuple(status["seconds"] for status in statuses), wall=wall, start=began - started)


def row_of(engine: str, sweeps: Sequence[OneSweep]) -> SweepRow:
    workers, seconds = WORKERS[engine], [each for sweep in sweeps for each in sweep.seconds]
    overheads = [(workers * (sweep.wall - sweep.start) - sum(sweep.seconds)) / len(sweep.seconds) for sweep in sweeps]
    efficiencies = [sum(sweep.seconds) / (workers * sweep.wall) for sweep in sweeps]
    return SweepRow(
        engine=engine,
        workers=workers,
        runs=len(sweeps[0].seconds),
        sweeps=len(sweeps),
        seconds_per_run=statistics.median(seconds),
        seconds_range=(min(seconds), max(seconds)),
        wall_seconds=statistics.median(sweep.wall for sweep in sweeps),
        start_seconds=statistics.median(sweep.start for sweep in sweeps),
        overhead_per_run=statistics.median(overheads),
        efficiency=statistics.median(efficiencies),
        efficiency_range=(min(efficiencies), max(efficiencies)),
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
