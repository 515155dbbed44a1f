"""One run from a spec to a finished folder: choose the loop, hold the lock, say how it ended."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from supple_lab.atomic_write import StorageError
from supple_lab.runs import supervised
from supple_lab.runs.journal import Journal
from supple_lab.runs.problem import Supervised
from supple_lab.runs.run_folder import State
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.store import Store

CHECKPOINT_SECONDS = (
    30.0  # a kill costs at most this much and one epoch; writing the paper's MLP takes a third of a second
)
NUM_THREADS = 1  # fixed by the run, never by the engine, so that the numbers do not depend on the engine


def execute(
    spec: RunSpec, store: Store, *, device: str = "cpu", checkpoint_seconds: float = CHECKPOINT_SECONDS
) -> State:
    """Bring the run to its end, from wherever it is; return how it ended. Storage errors are the caller's to tell."""
    folder = store.folder(spec)
    folder.create(spec)
    with folder.lock(), quiet_torch(device):
        if folder.state() == "done":
            return "done"
        journal = Journal(folder, torch.device(device), checkpoint_seconds=checkpoint_seconds)
        folder.write_status("running", progress=0.0, seconds=journal.seconds)
        try:
            _train(spec, journal)
        except supervised.Diverged as diverged:
            return _end(journal, "diverged", reason=str(diverged))
        except StorageError:
            raise
        except Exception as error:
            return _end(journal, "failed", reason=f"{type(error).__name__}: {error}", traceback=traceback.format_exc())
        return _end(journal, "done", progress=1.0)


def _train(spec: RunSpec, journal: Journal) -> None:
    if not isinstance(spec.problem, Supervised):
        raise TypeError(f"no loop for a problem of kind '{spec.problem.name}'.")
    supervised.train(spec, spec.problem, journal)


def _end(journal: Journal, state: State, **facts: object) -> State:
    counts = {"num_records": journal.num_records, "seconds": journal.seconds}
    told = {**journal.facts, **facts, **counts, "device": journal.device.type}
    journal.folder.write_status(state, **told)
    return state


@contextmanager
def quiet_torch(device: str) -> Iterator[None]:
    """The run's own number of threads and random streams; the caller's are put back."""
    num_threads = torch.get_num_threads()
    devices = [torch.device(device)] if device.startswith("cuda") else []
    torch.set_num_threads(NUM_THREADS)
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        torch.set_num_threads(num_threads)
