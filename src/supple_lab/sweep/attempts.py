"""Attempts at a run: what something outside it interrupted is tried again, as long as the run gets on."""

from collections.abc import Callable
from pathlib import Path

from supple_lab.interrupted import BrokenProcess, Interrupted
from supple_lab.runs.checkpoint import checkpoint_files, serial_of
from supple_lab.runs.run import execute
from supple_lab.runs.run_folder import State
from supple_lab.runs.spec import RunSpec
from supple_lab.sweep.executor import Executor, RunError

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
    """Execute the run in this very process, on the engine's terms."""
    store, device, terms = engine.store, engine.device, engine.terms

    def attempt() -> State:
        return execute(spec, store, device=device, pace=terms.pace, track=terms.track, settled=terms.settled)

    return persistently(attempt, store.folder(spec).path)


def newest_serial(folder: Path) -> int:
    """The number of the run's newest checkpoint; they only grow."""
    return max((serial_of(path) for path in checkpoint_files(folder)), default=0)
