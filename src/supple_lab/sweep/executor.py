"""Executor: where runs are executed, in the manner of concurrent.futures. Choosing one changes no number."""

import concurrent.futures
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future
from types import TracebackType
from typing import ClassVar

import torch

from supple_lab.runs.run_folder import State
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.store import Store
from supple_lab.sweep.terms import Terms


class RunError(Exception):
    """The run could not be executed; the message says why."""


class EngineMissing(Exception):
    """The engine cannot be used here; the message says what to install or to start."""


class Executor(ABC):
    """Executes runs of one store on one kind of device, at most ``jobs`` at once."""

    name: ClassVar[str]
    kind: ClassVar[str] = "engine"  # what users call it
    can_limit: ClassVar[bool] = True  # whether a run that exceeds its time or memory can be ended
    is_here: ClassVar[bool] = True  # whether runs compute on this machine, so that its GPUs are what they have

    def __init__(self, store: Store, *, device: str, jobs: int, terms: Terms | None = None) -> None:
        self.store = store
        self.device = device
        self.jobs = jobs
        self.terms = terms or Terms()

    @classmethod  # noqa: B027
    def check_installed(cls) -> None:
        """Raise EngineMissing where a package that the engine needs is not there."""

    @classmethod
    def default_jobs(cls, num_runs: int, *, device: str, terms: Terms) -> int:
        """How many runs to have at work where the user does not say: here, as many as this machine has places."""
        places = torch.cuda.device_count() * terms.per_gpu if device == "cuda" else len(os.sched_getaffinity(0))
        return max(1, min(places, num_runs))

    @abstractmethod
    def submit(self, spec: RunSpec) -> Future[State]:
        """Have the run executed; the future gives how it ended, or the reason it could not be executed."""

    def submit_all(self, specs: Sequence[RunSpec]) -> list[Future[State]]:
        """Submit several runs, which an engine may send on together."""
        return [self.submit(spec) for spec in specs]

    def as_completed(self, futures: Iterable[Future[State]], timeout: float | None = None) -> Iterator[Future[State]]:
        """The futures as they end; those that have ended when the timeout (seconds) is over, where there is one."""
        waiting = set(futures)
        while waiting:
            ended, waiting = concurrent.futures.wait(waiting, timeout=timeout, return_when=FIRST_COMPLETED)
            yield from ended
            if timeout is not None:
                return

    def cancel(self, future: Future[State]) -> bool:
        """Give up the run, which stays resumable; whether it could be given up."""
        return future.cancel()

    def stop(self) -> None:  # noqa: B027
        """Give up what has not finished; it stays resumable."""

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
