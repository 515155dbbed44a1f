"""What ends a run or a command: a sentence for the user (UserError), or something outside the run, which can go on."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NoReturn

SECONDS_TO_CHECKPOINT = 20  # after SIGTERM: SLURM and Kubernetes send SIGKILL after 30
ENDING = threading.Event()  # set once this process was asked to end
_at_work: set[int] = set()  # threads that execute a run


class UserError(Exception):
    """The message says in a sentence what is wrong and what to do; a command prints it and ends with exit code 2."""


def at_least(smallest: int, part: object, *names: str) -> None:
    """Raise an error that names the first of these fields below the smallest value it may have."""
    _require(part, names, lambda value: value >= smallest, f"at least {smallest}")


def positive(part: object, *names: str) -> None:
    _require(part, names, lambda value: value > 0, "positive")


def within(low: int, high: int, part: object, *names: str) -> None:
    _require(part, names, lambda value: low <= value <= high, f"in [{low}, {high}]")


def _require(part: object, names: Iterable[str], holds: Callable[[float], bool], words: str) -> None:
    """Where a field may be None, that breaks no rule; nan breaks each."""
    for name in names:
        value = getattr(part, name)
        if value is not None and not holds(value):
            raise ValueError(f"{type(part).__name__}.{name} must be {words}; got {value}.")


class Interrupted(Exception):
    """Something outside the run ended it: no state is written, and a retry continues from the checkpoint."""


COMPUTING_THREAD = "packed run"  # the name of threads that compute, as torch aborts if they outlive the interpreter


class BrokenProcess(Interrupted):
    """This process can execute no run any more; another one can."""


class Terminated(KeyboardInterrupt):
    """SIGTERM: the process ends as by Ctrl-C, after a checkpoint if a run is under way."""

    def __init__(self, message: str = "terminated") -> None:
        super().__init__(message)


def heed_sigterm_() -> None:
    """From now on SIGTERM has the run of this process write a checkpoint and end."""
    signal.signal(signal.SIGTERM, _end)
    if sys.platform != "win32":
        signal.signal(signal.SIGALRM, _end)


def _end(number: int, _: object) -> None:
    told_before = ENDING.is_set()
    ENDING.set()
    if sys.platform == "win32" or told_before or threading.main_thread().ident not in _at_work:
        raise Terminated
    signal.alarm(SECONDS_TO_CHECKPOINT)


@contextmanager
def at_work() -> Iterator[None]:
    """A run is executed by this thread."""
    thread = threading.get_ident()
    _at_work.add(thread)
    try:
        yield
    finally:
        _at_work.discard(thread)


def end_process(error: BaseException) -> NoReturn:
    """End this process, so that its driver continues the run in another. What broke may hang at an exit."""
    print(error, file=sys.stderr, flush=True)
    os._exit(1)
