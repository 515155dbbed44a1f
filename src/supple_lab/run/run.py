"""One run from a spec to a finished folder: choose the loop, hold the lock, say how it ended."""

import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import torch

from supple.random import mask_stream
from supple_lab.data.base import DataError
from supple_lab.errors import BrokenProcess, Interrupted, at_work
from supple_lab.files import StorageError, set_aside
from supple_lab.precision import Numerics
from supple_lab.provenance import gather_provenance, hardware_of
from supple_lab.rl.dqn_problem import DQN
from supple_lab.rl.off_policy_problem import OffPolicy
from supple_lab.rl.ppo_problem import PPO
from supple_lab.run import dqn, off_policy, ppo, supervised
from supple_lab.run.capture import graphs_that_end_together, reason_of
from supple_lab.run.recorder import CHECKPOINT_SECONDS, Journal
from supple_lab.scenarios.base import Unsuitable
from supple_lab.spec import RunSpec, Supervised
from supple_lab.store.checkpoint import UnusableCheckpoint, checkpoint_files
from supple_lab.store.lock import RunIsBusy
from supple_lab.store.reading import State, digests
from supple_lab.store.store import Store
from supple_lab.streams import stream_seed

NUM_THREADS = 1  # fixed by the run, never by the engine, so that the numbers do not depend on the engine


def execute(
    spec: RunSpec,
    store: Store,
    *,
    device: str = "cpu",
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    track: Sequence[str] = (),
    settled: Sequence[State] = ("done",),
) -> State:
    """Bring the run to its end, from wherever it is; return how it ended. A run in a settled state is left as it is.

    A disk that refuses (StorageError), data that is not there (DataError), another process at work (RunIsBusy) and what
    ended the run from outside it (Interrupted) are the caller's to tell: they say nothing about the run, which goes on
    from where it is when it is executed again.
    """
    folder = store.folder(spec)
    with folder.held(spec), own_threads(), at_work():
        if (state := folder.state()) in settled:
            return state
        progress = folder.status().get("progress", 0.0)
        journal = Journal(folder, torch.device(device), checkpoint_seconds, track=track)
        folder.write_status("running", progress=progress, seconds=journal.seconds)
        with closing(journal.tracking):
            return _bring_to_end(spec, journal)


def _bring_to_end(spec: RunSpec, journal: Journal) -> State:
    try:
        _train(spec, journal)
    except supervised.Diverged as diverged:
        return _end(journal, "diverged", reason=str(diverged))
    except (StorageError, RunIsBusy, Interrupted):
        raise
    except DataError as error:
        told = {name: value for name, value in journal.folder.status().items() if name in ("progress", "seconds")}
        journal.folder.write_status("interrupted", **told, reason=str(error))
        raise
    except Unsuitable as error:  # the user's to mend, and said in a sentence
        return _end(journal, "failed", reason=str(error))
    except Exception as error:
        if gave_up_this_process(journal.device):
            raise BrokenProcess(f"the GPU gave up this process: {reason_of(error)}.") from error
        return _end(journal, "failed", reason=f"{type(error).__name__}: {error}", traceback=traceback.format_exc())
    return _end(journal, "done", progress=1.0)


def _train(spec: RunSpec, journal: Journal) -> None:
    while True:
        try:
            return _train_once(spec, journal)
        except UnusableCheckpoint as error:  # what it half restored is made again
            newest = checkpoint_files(journal.folder.path)[-1]
            print(f"note: run {spec.run_id} cannot go on from {newest.name} ({error}).", file=sys.stderr)
            set_aside(newest)


def _train_once(spec: RunSpec, journal: Journal) -> None:
    masks = torch.Generator(journal.device).manual_seed(stream_seed(spec.seed, "masks"))
    numerics = Numerics.choose(journal.device, spec.precision)
    journal.facts["precision"] = numerics.precision
    with numerics.matmuls(), mask_stream(masks), graphs_that_end_together():
        if isinstance(spec.problem, Supervised):
            supervised.train(spec, spec.problem, journal, masks)
        elif isinstance(spec.problem, DQN):
            dqn.train(spec, spec.problem, journal, masks)
        elif isinstance(spec.problem, PPO):
            ppo.train(spec, spec.problem, journal, masks)
        elif isinstance(spec.problem, OffPolicy):
            off_policy.train(spec, spec.problem, journal, masks)
        else:
            raise TypeError(f"no loop for a problem of kind '{spec.problem.name}'.")


def _end(journal: Journal, state: State, **facts: object) -> State:
    journal.sync()
    journal.tracking.close()
    counts = {"num_records": journal.num_records, "seconds": journal.seconds}
    provenance = gather_provenance()
    made_by = {"hardware": hardware_of(journal.device), "versions": provenance.versions, "commit": provenance.commit}
    told = {**journal.facts, **journal.tracking.facts, **facts, **counts, "device": journal.device.type, **made_by}
    journal.folder.write_status(state, **told, digests=digests(journal.folder.path))
    journal.folder.copy_out()
    return state


def gave_up_this_process(device: torch.device) -> bool:
    """Whether the device refuses all further calls of this process, as CUDA does after an illegal access.

    It is asked, because the words of an error do not tell: want of memory or of a kernel leaves a GPU as it was. Only
    this thread's stream is waited for: while another thread captures, the whole device must not be.
    """
    if device.type != "cuda" or not torch.cuda.is_initialized():
        return False
    try:
        torch.cuda.current_stream(device).synchronize()
    except RuntimeError:
        return True
    return False


@contextmanager
def own_threads() -> Iterator[None]:
    """The run's own number of threads; the caller's is put back."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(NUM_THREADS)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)
