"""Engines of this machine: in line, or a process for each run."""

import itertools
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from supple_lab.errors import ENDING, SECONDS_TO_CHECKPOINT, Interrupted
from supple_lab.spec import RunSpec
from supple_lab.store.reading import SETTLED, State
from supple_lab.store.store import Store
from supple_lab.sweep.executor import Executor, Job, RunError, SweepOptions, state_in
from supple_lab.sweep.shared_gpu import SharedGPU
from supple_lab.sweep.sweep import execute_here, persistently


class Inline(Executor):
    """Runs one after the other in this process, for a debugger."""

    name = "inline"
    can_limit = False

    def submit(self, spec: RunSpec) -> Future[State]:
        future: Future[State] = Future()
        try:
            future.set_result(execute_here(spec, self))
        except Exception as error:  # raised by the future, as with every other engine
            future.set_exception(error)
        return future


SECONDS_BETWEEN_LOOKS = 0.25  # at the memory of a worker: one that leaks a GiB a second is seen in time
SECONDS_TO_START = 600.0  # many workers that read torch from a cold network disk take minutes
GIB = 2**30


class WorkerDied(Interrupted):
    """The worker process ended without an answer."""


class LimitReached(Exception):
    """The run took more time or memory than it may; its worker was ended."""


class WatchedWorker:
    """One worker process. It is started at once and serves one run after the other."""

    def __init__(self, job: Job, *, environment: Mapping[str, str] | None = None) -> None:
        self._options = job.options
        self._is_ready = False
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the worker)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "supple_lab.sweep.remote.worker", job.to_json()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
            start_new_session=True,  # Ctrl-C is the driver's to handle
        )

    def execute(self, spec: RunSpec) -> State:
        assert self._process.stdin is not None
        self._wait_until_ready()
        try:
            print(spec.to_json(), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise self._died() from None
        return state_in(self._answer())

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def terminate(self) -> None:
        self._process.terminate()

    def wait(self, seconds: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def kill(self) -> None:
        """End the process at once; the store is built to bear it."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End the process and let go of its pipes. Only the thread that hands it runs may."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout, self._complaints):
            assert pipe is not None
            with suppress(OSError):  # what it did not read any more
                pipe.close()

    def _wait_until_ready(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        if self._is_ready:
            return
        if not select.select([stdout], [], [], SECONDS_TO_START)[0]:
            self.kill()
            why = f"the worker process was not ready after {SECONDS_TO_START / 60:g} minutes, and was ended."
            raise RunError(" ".join([why, *self._last_words(), "The run stays resumable."]))
        if not stdout.readline():
            raise self._died()
        self._is_ready = True

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        started = time.monotonic()
        while not select.select([self._process.stdout], [], [], SECONDS_BETWEEN_LOOKS)[0]:
            if (reason := self._excess(time.monotonic() - started)) is not None:
                self.kill()
                raise LimitReached(reason)
        line = self._process.stdout.readline()
        if not line:
            raise self._died()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _excess(self, seconds: float) -> str | None:
        time_limit, memory_limit = self._options.time_limit, self._options.memory_limit
        if time_limit is not None and seconds > time_limit:
            return f"time limit: the run took more than {time_limit / 60:g} minutes"
        if memory_limit is not None and (used := own_bytes(self._process.pid)) > memory_limit:
            return f"memory limit: the run's process took {used / GIB:.2f} GiB, more than {memory_limit / GIB:g} GiB"
        return None

    def _died(self) -> WorkerDied:
        code = self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return WorkerDied(" ".join([f"the worker process ended with {how}.", *self._last_words()]))

    def _last_words(self) -> list[str]:
        self._complaints.seek(0)
        return self._complaints.read().decode(errors="replace").strip().splitlines()[-1:]


def execute_persistently(
    spec: RunSpec, store: Store, *, worker: Callable[[], WatchedWorker], is_wanted: Callable[[], bool] = lambda: True
) -> State:
    """Execute the run with as many workers as it takes, as long as it gets on from one death to the next."""
    try:
        return persistently(lambda: worker().execute(spec), store.folder(spec).path, is_wanted=is_wanted)
    except LimitReached as limit:
        return fail(store, spec, str(limit))


def own_bytes(pid: int) -> int:
    """Return the memory that the process has for itself; 0 if it is gone or the system does not say.

    Pages of files do not count: the system takes back those of a replay as it needs them.
    """
    if sys.platform == "win32":
        return 0
    with suppress(OSError, ValueError, IndexError):
        _, resident, of_files, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
        return (resident - of_files) * os.sysconf("SC_PAGE_SIZE")
    return 0


def fail(store: Store, spec: RunSpec, reason: str) -> State:
    """Mark a run whose worker was ended as failed, unless it had come to its end; a retry continues it."""
    folder = store.folder(spec)
    with folder.held(spec):
        if (state := folder.state()) in SETTLED:
            return state
        told = {name: value for name, value in folder.status().items() if name in ("progress", "accuracy", "seconds")}
        folder.write_status("failed", **told, reason=f"{reason}; --retry-failed continues it.")
        folder.copy_out()
    return "failed"


class Process(Executor):
    """Several processes on this machine, one run each at a time; --per-gpu of them on each GPU."""

    name = "process"

    def __init__(self, store: Store, *, device: str, jobs: int, options: SweepOptions | None = None) -> None:
        super().__init__(store, device=device, jobs=jobs, options=options)
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="worker")  # one hands each worker its runs
        self._own = threading.local()
        self._workers: list[WatchedWorker] = []
        self._gpus = itertools.cycle(visible_gpus()) if device == "cuda" else itertools.repeat(None)
        self._shared = SharedGPU() if device == "cuda" and jobs > len(visible_gpus()) else None
        self._stopping = False
        self._lock = threading.Lock()  # over stopping and the list of workers: none may start after the stop

    def submit(self, spec: RunSpec) -> Future[State]:
        return self._threads.submit(self._execute, spec)

    def stop(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._stopping = True
            if ENDING.is_set():  # by SIGTERM: the runs write a checkpoint, all at the same time
                until = time.monotonic() + SECONDS_TO_CHECKPOINT
                for worker in self._workers:
                    worker.terminate()
                for worker in self._workers:
                    worker.wait(until - time.monotonic())
            for worker in self._workers:
                worker.kill()
        self._threads.shutdown()
        for worker in self._workers:
            worker.close()
        if self._shared is not None:
            self._shared.stop()

    def _execute(self, spec: RunSpec) -> State:
        return execute_persistently(spec, self.store, worker=self._worker, is_wanted=lambda: not self._stopping)

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
                # By which a worker finds its GPU, and the service that it shares it by.
                own = {} if self._own.gpu is None else {"CUDA_VISIBLE_DEVICES": self._own.gpu}
                shared = {} if self._shared is None else self._shared.environment
                self._own.worker = worker = WatchedWorker(Job.of(self), environment={**own, **shared})
                self._workers.append(worker)
        return worker


def visible_gpus() -> list[str]:
    """The GPUs of this machine that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",") if named else [str(index) for index in range(torch.cuda.device_count())]
