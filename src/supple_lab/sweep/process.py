"""Process: worker processes on this machine, each with one run at a time. A worker that dies is replaced."""

import json
import os
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Future, ThreadPoolExecutor

from supple_lab.runs.run_folder import RunIsBusy, State
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.store import Store
from supple_lab.sweep.executor import Executor

NUM_ATTEMPTS = (
    3  # a run whose worker is killed resumes from its checkpoint; one that kills workers must not do so forever
)


class RunError(Exception):
    """The run could not be executed; the message says why."""


class WorkerDied(Exception):
    """The worker process ended without an answer."""


class Process(Executor):
    """Several processes on this machine, one run each at a time."""  # a thread per worker hands it its runs

    name = "process"

    def __init__(self, store: Store, *, device: str, jobs: int) -> None:
        super().__init__(store, device=device, jobs=jobs)
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="worker")
        self._own = threading.local()
        self._workers: list[Worker] = []
        self._stopping = False

    def submit(self, spec: RunSpec) -> Future[State]:
        return self._threads.submit(self._execute, spec)

    def stop(self) -> None:
        self._stopping = True
        for worker in self._workers:
            worker.kill()
        self._threads.shutdown(cancel_futures=True)

    def _execute(self, spec: RunSpec) -> State:
        for attempt in range(1, NUM_ATTEMPTS + 1):
            try:
                return self._worker().execute(spec)
            except WorkerDied as death:
                if self._stopping or attempt == NUM_ATTEMPTS:
                    raise RunError(f"{death} The run was tried {attempt} times; it stays resumable.") from death
        raise AssertionError("the last attempt returns or raises")

    def _worker(self) -> "Worker":
        worker = getattr(self._own, "worker", None)
        if worker is None or not worker.is_alive():
            worker = self._own.worker = Worker(self.store, self.device)
            self._workers.append(worker)
        return worker


class Worker:
    """One worker process, seen from the driver."""

    def __init__(self, store: Store, device: str) -> None:
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the worker)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "supple_lab.sweep.worker", str(store.root), device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C is the driver's to handle
        )

    def execute(self, spec: RunSpec) -> State:
        """Send the run and wait for the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(spec.to_json(), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise self._died() from None
        line = self._process.stdout.readline()
        if not line:
            raise self._died()
        answer = json.loads(line)
        if "busy" in answer:
            raise RunIsBusy(answer["busy"])
        if "error" in answer:
            raise RunError(answer["error"])
        return answer["state"]

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """End the process at once; the store is built to bear it."""
        self._process.kill()
        self._process.wait()

    def _died(self) -> WorkerDied:
        code = self._process.wait()
        self._complaints.seek(0)
        last_words = self._complaints.read().decode(errors="replace").strip().splitlines()[-1:]
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return WorkerDied(" ".join([f"the worker process ended with {how}.", *last_words]))
