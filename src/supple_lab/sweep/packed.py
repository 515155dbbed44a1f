"""Packed: several runs in threads of this process share one GPU, each on a stream of its own.

Steps are captured graphs, so a thread does little but replay them, and kernels too small to fill the card run side by
side. Each run draws from streams of its own: its numbers are those of the run alone. Two exceptions are known. A run
that traces its network (CBP, ReDo) has torch.export turn cuDNN and oneDNN off for the whole process for a second or
two, and convolutions that other runs compute meanwhile, not captured ones, round otherwise. And steps for whose capture
the others leave too little memory are eager and draw other masks, which the run says.
"""

import concurrent.futures
import queue
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext, suppress

import torch

from supple_lab.errors import COMPUTING_THREAD, ENDING, SECONDS_TO_CHECKPOINT, BrokenProcess
from supple_lab.precision import Numerics
from supple_lab.run.capture import MAX_THREADS
from supple_lab.scenarios.base import Unsuitable
from supple_lab.spec import RunSpec
from supple_lab.store.reading import State
from supple_lab.store.store import Store
from supple_lab.sweep.executor import Executor, RunError, SweepOptions
from supple_lab.sweep.sweep import execute_here

OWN = threading.local()
ONE_GPU = "note: --engine packed computes on one GPU, and this machine has {}. --engine process uses them all."


class Packed(Executor):
    """Several runs in threads of this process that share one GPU, the first."""

    name = "packed"
    can_limit = False

    def __init__(self, store: Store, *, device: str, jobs: int, options: SweepOptions | None = None) -> None:
        super().__init__(store, device=device, jobs=min(jobs, MAX_THREADS), options=options)
        self._waiting: queue.Queue[tuple[RunSpec, Future[State]]] = queue.Queue()
        if jobs > MAX_THREADS:
            print(f"note: --engine packed has at most {MAX_THREADS} runs at once, not {jobs}.", file=sys.stderr)
        self._at_work: set[Future[State]] = set()
        self._broken = ""  # why this process can execute no run any more
        if device == "cuda" and torch.cuda.device_count() > 1:
            print(ONE_GPU.format(torch.cuda.device_count()), file=sys.stderr)
        for _ in range(self.jobs):
            # Daemons: a thread cannot be stopped, but ends with the process, which a run bears like any other kill.
            threading.Thread(target=self._serve, daemon=True, name=COMPUTING_THREAD).start()

    @classmethod
    def default_jobs(cls, num_runs: int, *, device: str, options: SweepOptions) -> int:
        if device != "cuda":
            return super().default_jobs(num_runs, device=device, options=options)
        return max(1, min(options.per_gpu, num_runs))

    def submit(self, spec: RunSpec) -> Future[State]:
        future: Future[State] = Future()
        self._waiting.put((spec, future))
        return future

    def submit_all(self, specs: Sequence[RunSpec]) -> list[Future[State]]:
        """Refuse runs of which some round float32 products and others do not: torch has one such setting a process."""
        precisions = {Numerics.choose(torch.device(self.device), spec.precision).precision for spec in specs}
        if "fp32" in precisions and len(precisions) > 1:
            raise Unsuitable(
                f"--engine packed has all runs in one process, which cannot compute in fp32 and in another precision "
                f"at once; these runs are of {', '.join(sorted(precisions))}. Use --engine process, or one sweep for "
                "each."
            )
        return super().submit_all(specs)

    def stop(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._waiting.get_nowait()[1].cancel()
        if ENDING.is_set():  # by SIGTERM: the runs write a checkpoint
            concurrent.futures.wait(self._at_work, timeout=SECONDS_TO_CHECKPOINT)

    def _serve(self) -> None:
        while True:
            spec, future = self._waiting.get()
            if future.set_running_or_notify_cancel():
                self._at_work.add(future)
                self._execute(spec, future)
                self._at_work.discard(future)

    def _execute(self, spec: RunSpec, future: Future[State]) -> None:
        try:
            if self._broken:
                raise RunError(self._broken)
            with own_stream(self.device):
                state = execute_here(spec, self)
            future.set_result(state)
        except BrokenProcess as error:  # no thread of this process can go on
            self._broken = f"{error} The runs stay resumable: the same command, in a new process, continues them."
            future.set_exception(RunError(self._broken))
        except BaseException as error:  # raised by the future; an exit would end the thread unseen
            future.set_exception(error)


def own_stream(device: str) -> AbstractContextManager[object]:
    """Return this thread's stream, if runs compute on a GPU; the first run of the thread makes it."""
    if device != "cuda":
        return nullcontext()
    if not hasattr(OWN, "stream"):
        try:
            OWN.stream = torch.cuda.Stream()
        except RuntimeError as error:
            raise RunError(f"the run found no place on the GPU: {error}") from error
    return torch.cuda.stream(OWN.stream)
