"""Attempts at a run: what something outside it interrupted is tried again, as long as the run gets on."""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from supple_lab.errors import BrokenProcess, Interrupted
from supple_lab.files import StorageError
from supple_lab.spec import RunSpec
from supple_lab.store.checkpoint import checkpoint_files, serial_of
from supple_lab.store.lock import LockWatch, RunIsBusy
from supple_lab.store.reading import SETTLED, State
from supple_lab.store.store import Store
from supple_lab.sweep.executor import Executor, Job, RunError

NUM_ATTEMPTS = 5  # without a new checkpoint: killed workers are replaced, but a run that kills its own is given up


def persistently(attempt: Callable[[], State], folder: Path, *, is_wanted: Callable[[], bool] = lambda: True) -> State:
    """Try the run in that folder as often as it takes, while each attempt gets further than the one before."""
    num_attempts, furthest = 0, newest_serial(folder)
    while True:
        try:
            return attempt()
        except BrokenProcess:
            raise  # a further attempt from here would end the same way
        except Interrupted as interruption:
            now = newest_serial(folder)
            num_attempts, furthest = num_attempts + 1 if now <= furthest else 1, now
            if num_attempts == NUM_ATTEMPTS or not is_wanted():
                reason = f"{interruption} The run was tried {num_attempts} times; it stays resumable."
                raise RunError(reason) from interruption


def execute_here(spec: RunSpec, engine: Executor) -> State:
    return persistently(lambda: Job.of(engine).execute(spec, engine.store), engine.store.folder(spec).path)


def newest_serial(folder: Path) -> int:
    """The number of the run's newest checkpoint; they only grow."""
    return max((serial_of(path) for path in checkpoint_files(folder)), default=0)


SECONDS_BETWEEN_LOOKS = 1.0  # at runs that other processes hold
NUM_COPIERS = 16  # threads that wait for a mirror's answers


@dataclass(frozen=True)
class Failure:
    spec: RunSpec
    reason: str
    traceback: str = ""  # if the run itself raised
    busy: bool = False  # another process is at work on it
    before: bool = False  # it failed before, and was not tried again


def unfinished(store: Store, specs: Iterable[RunSpec], *, retry_failed: bool) -> list[RunSpec]:
    """The runs still to be executed; what failed before is tried again only when asked for."""
    settled = ("done",) if retry_failed else SETTLED
    return [spec for spec in specs if store.folder(spec).state() not in settled]


def execute_all(specs: Sequence[RunSpec], executor: Executor) -> list[Failure]:
    """Execute the runs; what could not be executed is returned with the reason, and hinders nothing else.

    A run that another process is at work on is waited for, and taken over should that process die.
    """
    for spec in specs:
        with suppress(StorageError):  # said when it is this run's turn
            executor.store.folder(spec).create(spec)
    could_not: list[Failure] = []
    elsewhere: dict[RunSpec, LockWatch] = {}
    with executor:
        futures = dict(zip(executor.submit_all(specs), specs, strict=True))
        while futures or elsewhere:
            for future in wait(futures, timeout=SECONDS_BETWEEN_LOOKS, return_when=FIRST_COMPLETED).done:
                spec = futures.pop(future)
                if isinstance(error := error_of(future, executor.store, spec), RunIsBusy):
                    elsewhere[spec] = LockWatch(executor.store.folder(spec).path)
                elif error is not None:
                    could_not.append(Failure(spec, str(error) or type(error).__name__))
            for spec, watch in list(elsewhere.items()):
                try:
                    if not watch.broke():
                        continue
                    if executor.store.folder(spec).state() not in executor.options.settled:
                        futures[executor.submit(spec)] = spec
                except StorageError as error:
                    could_not.append(Failure(spec, str(error)))
                del elsewhere[spec]
            if elsewhere and not futures:
                time.sleep(SECONDS_BETWEEN_LOOKS)
    return could_not


def error_of(future: Future[State], store: Store, spec: RunSpec) -> BaseException | None:
    """What kept the run from being executed, or its results from coming here, if anything did."""
    try:
        if future.exception() is None:
            exchange(store, [spec])
        return future.exception()
    except (CancelledError, StorageError) as error:
        return error


def failures(store: Store, specs: Iterable[RunSpec]) -> list[Failure]:
    statuses = ((spec, store.folder(spec).status()) for spec in specs)
    return [
        Failure(spec, str(status.get("reason")), str(status.get("traceback", "")))
        for spec, status in statuses
        if status["state"] == "failed"
    ]


def exchange(store: Store, specs: Sequence[RunSpec]) -> None:
    """Copy the runs between this machine and the mirror, if there is one, until both hold what either has."""
    mirror = store.mirror
    if mirror is None:
        return

    def exchange_one(spec: RunSpec) -> None:
        folder = store.folder(spec)
        with suppress(RunIsBusy), folder.held(spec):  # which fetches it; the process at work on it copies it out
            if mirror.lacks(folder.path):
                folder.copy_out()

    with ThreadPoolExecutor(NUM_COPIERS) as copiers:
        list(copiers.map(exchange_one, specs))
