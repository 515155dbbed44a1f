"""Executor: what brings the runs of a sweep to their end; on options none of which affects results."""

import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

import torch

from supple_lab.codec import encode
from supple_lab.errors import Interrupted, UserError, end_process
from supple_lab.run.recorder import CHECKPOINT_SECONDS
from supple_lab.run.run import execute
from supple_lab.spec import RunSpec
from supple_lab.store.lock import RunIsBusy
from supple_lab.store.reading import SETTLED, State
from supple_lab.store.store import Store


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """Options of a sweep's runs; none affects results."""

    per_gpu: int = 1  # runs at once on one GPU
    time_limit: float | None = None  # seconds for one attempt at a run; what takes longer has failed
    memory_limit: int | None = None  # bytes of a run's process, mapped files not counted; what takes more has failed
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    track: tuple[str, ...] = ()  # names of trackers that are told what a run records
    address: str | None = None  # of a running Ray cluster
    slurm: tuple[str, ...] = ()  # what sbatch is told besides, as NAME=VALUE
    retry_failed: bool = False  # whether runs that failed or diverged before are tried again

    @property
    def settled(self) -> tuple[State, ...]:
        """States in which a run is left as it is, also if it came to be so after the sweep's start."""
        return ("done",) if self.retry_failed else SETTLED


@dataclass(frozen=True, kw_only=True)
class Job:
    """Where the runs are, on what they compute, and with which options."""

    out: str
    mirror: str | None
    device: str
    jobs: int
    options: SweepOptions

    @classmethod
    def of(cls, engine: "Executor") -> "Job":
        store, mirror = engine.store, engine.store.mirror
        return cls(
            out=str(store.root.resolve()),
            mirror=mirror.url if mirror else None,
            device=engine.device,
            jobs=engine.jobs,
            options=engine.options,
        )

    def store(self) -> Store:
        return Store.create(Path(self.out), mirror=self.mirror)

    def execute(self, spec: RunSpec, store: Store) -> State:
        own = self.options
        seconds, track, settled = own.checkpoint_seconds, own.track, own.settled
        return execute(spec, store, device=self.device, checkpoint_seconds=seconds, track=track, settled=settled)

    @property
    def runs_at_once(self) -> int:
        """That share what one job is given: a GPU, or a core."""
        return self.options.per_gpu if self.device == "cuda" else 1

    def to_json(self) -> str:
        return json.dumps(encode(self))


def answer_of(work: Callable[[], State]) -> dict[str, str]:
    """Return how a run ended, or what kept it from being executed, as JSON for the driver.

    A run that was interrupted ends this process: the driver takes it up again in one that nothing happened to.
    """
    try:
        return {"state": work()}
    except RunIsBusy as busy:
        return {"busy": str(busy)}
    except Interrupted as error:
        end_process(error)
    except Exception as error:  # the driver prints it, under the run's name
        return {"error": str(error) or type(error).__name__}


def state_in(answer: dict[str, Any]) -> State:
    """Return the state in an answer, or raise its error."""
    if "busy" in answer:
        raise RunIsBusy(answer["busy"])
    if "error" in answer:
        raise RunError(answer["error"])
    state: State = answer["state"]
    return state


def settle(future: Future[State], answer: dict[str, Any]) -> None:
    try:
        future.set_result(state_in(answer))
    except (RunIsBusy, RunError) as error:
        future.set_exception(error)


def num_cores() -> int:
    """Return the number of cores that this process may use, if the system says it; else of all."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class RunError(Exception):
    """The run could not be executed; the message says why."""


class EngineMissing(UserError):
    """The engine cannot be used here; the message says what to install or to start."""


class Executor(ABC):
    """Executes runs of one store on one kind of device, at most ``jobs`` at once."""

    name: ClassVar[str]
    can_limit: ClassVar[bool] = True  # whether a run that exceeds its time or memory can be ended
    is_here: ClassVar[bool] = True  # whether runs compute on this machine, so that its GPUs are what they have

    def __init__(self, store: Store, *, device: str, jobs: int, options: SweepOptions | None = None) -> None:
        self.store = store
        self.device = device
        self.jobs = jobs
        self.options = options or SweepOptions()

    @classmethod  # noqa: B027
    def check_installed(cls) -> None:
        """Raise EngineMissing if a package that the engine needs is missing."""

    @classmethod
    def default_jobs(cls, num_runs: int, *, device: str, options: SweepOptions) -> int:
        """Return how many runs go at once by default: here, as many as this machine has places."""
        places = torch.cuda.device_count() * options.per_gpu if device == "cuda" else num_cores()
        return max(1, min(places, num_runs))

    @abstractmethod
    def submit(self, spec: RunSpec) -> Future[State]:
        """Have the run executed; the future gives how it ended, or the reason it could not be executed."""

    def submit_all(self, specs: Sequence[RunSpec]) -> list[Future[State]]:
        """Submit several runs, which an engine may send on together."""
        return [self.submit(spec) for spec in specs]

    def stop(self) -> None:  # noqa: B027
        """Give up what has not finished; it stays resumable."""

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
