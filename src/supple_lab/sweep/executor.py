"""Terms: what a sweep grants each of its runs. None of it changes a number."""

import concurrent.futures
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar

import torch

from supple_lab.codec import decode, encode
from supple_lab.run.recorder import Pace
from supple_lab.spec import RunSpec
from supple_lab.store.lock import RunIsBusy
from supple_lab.store.run_folder import SETTLED, State
from supple_lab.store.store import Store


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The share of a GPU, the time and the memory that a run may have, and where the runs find a cluster."""

    per_gpu: int = 1  # runs at once on one GPU
    time_limit: float | None = None  # seconds for one attempt at a run; what takes longer has failed
    memory_limit: int | None = None  # bytes of a run's process, mapped files not counted; what takes more has failed
    pace: Pace = field(default_factory=Pace)
    track: tuple[str, ...] = ()  # names of trackers that are told what a run records
    address: str | None = None  # of a running Ray cluster
    slurm: tuple[str, ...] = ()  # what sbatch is told besides, as NAME=VALUE
    retry_failed: bool = False  # whether runs that failed or diverged before are tried again

    @property
    def has_limits(self) -> bool:
        """Whether somebody must watch the run's process."""
        return self.time_limit is not None or self.memory_limit is not None

    @property
    def settled(self) -> tuple[State, ...]:
        """States in which a run is left as it is, also where it came to be so after the sweep's start."""
        return ("done",) if self.retry_failed else SETTLED


@dataclass(frozen=True, kw_only=True)
class Order:
    """Where the runs are, on what they compute, and on what terms."""

    out: str
    mirror: str | None
    device: str
    jobs: int
    terms: Terms

    @classmethod
    def of(cls, engine: "Executor") -> "Order":
        """The order that an engine passes on."""
        store = engine.store
        mirror = store.mirror.url if store.mirror else None
        return cls(
            out=str(store.root.resolve()), mirror=mirror, device=engine.device, jobs=engine.jobs, terms=engine.terms
        )

    @property
    def runs_at_once(self) -> int:
        """That share what one job is given: a GPU, or a core."""
        return self.terms.per_gpu if self.device == "cuda" else 1

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        content: dict[str, Any] = encode(self)
        return content

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "Order":
        """The order that was written."""
        order: Order = decode(cls, content)
        return order


def settle(future: Future[State], answer: dict[str, Any]) -> None:
    """Hand an answer to whoever waits for the run."""
    if "state" in answer:
        future.set_result(answer["state"])
    elif "busy" in answer:
        future.set_exception(RunIsBusy(answer["busy"]))
    else:
        future.set_exception(RunError(answer["error"]))


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
