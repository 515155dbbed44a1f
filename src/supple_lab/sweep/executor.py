"""Executor: where runs are executed, in the manner of concurrent.futures. Choosing one changes no number."""

from abc import ABC, abstractmethod
from concurrent.futures import Future
from types import TracebackType
from typing import ClassVar

from supple_lab.runs.run_folder import State
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.store import Store


class Executor(ABC):
    """Executes runs of one store on one kind of device, at most ``jobs`` at once."""

    name: ClassVar[str]
    kind: ClassVar[str] = "engine"  # what users call it

    def __init__(self, store: Store, *, device: str, jobs: int) -> None:
        self.store = store
        self.device = device
        self.jobs = jobs

    @abstractmethod
    def submit(self, spec: RunSpec) -> Future[State]:
        """Have the run executed; the future gives how it ended, or the reason it could not be executed."""

    def stop(self) -> None:  # noqa: B027
        """Give up what has not finished; it stays resumable."""

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
