"""Packed: several runs in threads of this process share one GPU, each on a stream of its own.

Steps are captured graphs, so a thread does little but replay them, and kernels too small to fill the card run side by
side. Each run draws from streams of its own: its numbers are those of the run alone.
"""

from concurrent.futures import Future, ThreadPoolExecutor

import torch

from supple_lab.runs.run import execute
from supple_lab.runs.run_folder import State
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.store import Store
from supple_lab.sweep.executor import Executor
from supple_lab.sweep.terms import Terms


class Packed(Executor):
    """Several runs in threads of this process that share its GPU."""

    name = "packed"
    can_limit = False

    def __init__(self, store: Store, *, device: str, jobs: int, terms: Terms | None = None) -> None:
        super().__init__(store, device=device, jobs=jobs, terms=terms)
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="run")

    def submit(self, spec: RunSpec) -> Future[State]:
        return self._threads.submit(self._execute, spec)

    def stop(self) -> None:
        self._threads.shutdown(cancel_futures=True)

    def _execute(self, spec: RunSpec) -> State:
        if self.device != "cuda":
            return execute(spec, self.store, device=self.device, pace=self.terms.pace)
        with torch.cuda.stream(torch.cuda.Stream()):
            return execute(spec, self.store, device=self.device, pace=self.terms.pace)
