"""Packed: several runs in threads of this process share one GPU, each on a stream of its own.

Steps are captured graphs, so a thread does little but replay them, and kernels too small to fill the card run side by
side. Each run draws from streams of its own: its numbers are those of the run alone.
"""

import queue
import threading
from concurrent.futures import Future
from contextlib import nullcontext, suppress

import torch

from supple_lab.runs.captured import MAX_THREADS
from supple_lab.runs.run import execute
from supple_lab.runs.run_folder import State
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.store import Store
from supple_lab.sweep.executor import Executor
from supple_lab.sweep.terms import Terms

THREAD_NAME = "packed run"


class Packed(Executor):
    """Several runs in threads of this process that share its GPU."""

    name = "packed"
    can_limit = False

    def __init__(self, store: Store, *, device: str, jobs: int, terms: Terms | None = None) -> None:
        super().__init__(store, device=device, jobs=min(jobs, MAX_THREADS), terms=terms)
        self._waiting: queue.Queue[tuple[RunSpec, Future[State]]] = queue.Queue()
        for _ in range(self.jobs):
            # Daemons: a thread cannot be stopped, but ends with the process, which a run bears like any other kill.
            threading.Thread(target=self._serve, daemon=True, name=THREAD_NAME).start()

    def submit(self, spec: RunSpec) -> Future[State]:
        future: Future[State] = Future()
        self._waiting.put((spec, future))
        return future

    def stop(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._waiting.get_nowait()[1].cancel()

    def _serve(self) -> None:
        with torch.cuda.stream(torch.cuda.Stream()) if self.device == "cuda" else nullcontext():
            while True:
                spec, future = self._waiting.get()
                if future.set_running_or_notify_cancel():
                    self._execute(spec, future)

    def _execute(self, spec: RunSpec, future: Future[State]) -> None:
        try:
            terms = self.terms
            state = execute(
                spec, self.store, device=self.device, pace=terms.pace, track=terms.track, settled=terms.settled
            )
            future.set_result(state)
        except Exception as error:  # told by whoever asks the future, as with every other engine
            future.set_exception(error)
