"""A sweep: bring every run of a list to its end, skipping what is done, and say what failed."""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import dataclass

from supple_lab.runs.run_folder import RunIsBusy, State
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.store import Store
from supple_lab.sweep.executor import Executor


@dataclass(frozen=True)
class Failure:
    """A run that did not end well, and why; ``busy`` where another process is at work on it."""

    spec: RunSpec
    reason: str
    busy: bool = False


def unfinished(store: Store, specs: Iterable[RunSpec], *, retry_failed: bool) -> list[RunSpec]:
    """The runs still to be executed; what failed before is tried again only when asked for."""
    settled: tuple[State, ...] = ("done",) if retry_failed else ("done", "failed", "diverged")
    return [spec for spec in specs if store.folder(spec).state() not in settled]


def execute_all(specs: Sequence[RunSpec], executor: Executor) -> list[Failure]:
    """Execute the runs; what could not be executed is returned with the reason, and hinders nothing else."""
    for spec in specs:
        executor.store.folder(spec).create(spec)
    with executor:
        futures = {executor.submit(spec): spec for spec in specs}
        return [failure_of(futures[future], future) for future in as_completed(futures) if future.exception()]


def failures(store: Store, specs: Iterable[RunSpec]) -> list[Failure]:
    """The runs that the store says have failed."""
    statuses = ((spec, store.folder(spec).status()) for spec in specs)
    return [Failure(spec, str(status.get("reason"))) for spec, status in statuses if status["state"] == "failed"]


def failure_of(spec: RunSpec, future: Future[State]) -> Failure:
    """What kept the run from being executed."""
    error = future.exception()
    return Failure(spec, str(error) or type(error).__name__, busy=isinstance(error, RunIsBusy))
