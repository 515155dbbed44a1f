"""A sweep: bring every run of a list to its end, skipping what is done, and say what failed."""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import dataclass

from supple_lab.runs.run_folder import State
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.store import Store
from supple_lab.sweep.executor import Executor


@dataclass(frozen=True)
class Failure:
    """A run that did not end well, and why."""

    spec: RunSpec
    reason: str


def unfinished(store: Store, specs: Iterable[RunSpec], *, retry_failed: bool) -> list[RunSpec]:
    """The runs still to be executed; what failed before is tried again only when asked for."""
    settled: tuple[State, ...] = ("done",) if retry_failed else ("done", "failed", "diverged")
    return [spec for spec in specs if store.folder(spec).status()["state"] not in settled]


def execute_all(specs: Sequence[RunSpec], executor: Executor) -> list[Failure]:
    """Execute the runs; what could not be executed is returned with the reason, and hinders nothing else."""
    for spec in specs:
        executor.store.folder(spec).create(spec)
    with executor:
        futures = {executor.submit(spec): spec for spec in specs}
        return [Failure(futures[future], _reason(future)) for future in as_completed(futures) if future.exception()]


def failures(store: Store, specs: Iterable[RunSpec]) -> list[Failure]:
    """The runs that the store says have failed."""
    statuses = ((spec, store.folder(spec).status()) for spec in specs)
    return [Failure(spec, str(status.get("reason"))) for spec, status in statuses if status["state"] == "failed"]


def _reason(future: Future[State]) -> str:
    error = future.exception()
    return str(error) or type(error).__name__
