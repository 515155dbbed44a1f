"""Process: worker processes on this machine, each with one run at a time. A worker that dies is replaced."""

import itertools
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import torch

from supple_lab.runs.run_folder import State
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.store import Store
from supple_lab.sweep.executor import Executor, RunError
from supple_lab.sweep.shared_gpu import SharedGPU
from supple_lab.sweep.terms import Terms
from supple_lab.sweep.watched_worker import WatchedWorker, execute_persistently


class Process(Executor):
    """Several processes on this machine, one run each at a time; --per-gpu of them on each GPU."""

    name = "process"

    def __init__(self, store: Store, *, device: str, jobs: int, terms: Terms | None = None) -> None:
        super().__init__(store, device=device, jobs=jobs, terms=terms)
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="worker")  # one hands each worker its runs
        self._own = threading.local()
        self._workers: list[WatchedWorker] = []
        self._specs: dict[Future[State], RunSpec] = {}
        self._at_work: dict[RunSpec, WatchedWorker] = {}
        self._given_up: set[RunSpec] = set()
        self._gpus = itertools.cycle(visible_gpus()) if device == "cuda" else itertools.repeat(None)
        self._shared = SharedGPU() if device == "cuda" and jobs > len(visible_gpus()) else None
        self._stopping = False
        self._lock = threading.Lock()  # over stopping and the list of workers: none may start after the stop

    def submit(self, spec: RunSpec) -> Future[State]:
        self._given_up.discard(spec)
        future = self._threads.submit(self._execute, spec)
        self._specs[future] = spec
        return future

    def cancel(self, future: Future[State]) -> bool:
        self._given_up.add(self._specs[future])
        worker = self._at_work.get(self._specs[future])
        if worker is not None:
            worker.kill()
        return future.cancel() or worker is not None

    def stop(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._stopping = True
            for worker in self._workers:
                worker.kill()
        self._threads.shutdown()
        for worker in self._workers:
            worker.close()
        if self._shared is not None:
            self._shared.stop()

    def _execute(self, spec: RunSpec) -> State:
        def worker() -> WatchedWorker:
            self._at_work[spec] = self._worker()
            return self._at_work[spec]

        def is_wanted() -> bool:
            return not self._stopping and spec not in self._given_up

        try:
            return execute_persistently(spec, self.store, worker=worker, is_wanted=is_wanted)
        finally:
            self._at_work.pop(spec, None)

    def _worker(self) -> WatchedWorker:
        worker: WatchedWorker | None = getattr(self._own, "worker", None)
        if worker is None or not worker.is_alive():
            with self._lock:
                if worker in self._workers:
                    self._workers.remove(worker)
                    worker.close()
                if self._stopping:
                    raise RunError("the sweep was stopped; the run stays resumable.")
                if not hasattr(self._own, "gpu"):
                    self._own.gpu = next(self._gpus)
                worker = self._own.worker = WatchedWorker(
                    self.store, self.device, self.terms, environment=self._environment(self._own.gpu)
                )
                self._workers.append(worker)
        return worker

    def _environment(self, gpu: str | None) -> dict[str, str]:
        """By which a worker finds its GPU, and the service that it shares it by."""
        chosen = {} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu}
        return {**chosen, **(self._shared.environment if self._shared is not None else {})}


def visible_gpus() -> list[str]:
    """The GPUs of this machine that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",") if named else [str(index) for index in range(torch.cuda.device_count())]
