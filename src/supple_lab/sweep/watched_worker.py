"""A worker process seen from outside: handed runs, watched while it has one, ended when it goes too far."""

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from supple_lab.runs.checkpoint import checkpoint_files, serial_of
from supple_lab.runs.lease import RunIsBusy
from supple_lab.runs.run_folder import State
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.store import Store
from supple_lab.sweep.executor import RunError
from supple_lab.sweep.terms import Terms

NUM_ATTEMPTS = 5  # without a new checkpoint: killed workers are replaced, but a run that kills its own is given up
SECONDS_BETWEEN_LOOKS = 0.25  # at the memory of a worker: one that leaks a GiB a second is seen in time
SECONDS_TO_START = 600.0  # many workers that read torch from a cold network disk take minutes
GIB = 2**30


class WorkerDied(Exception):
    """The worker process ended without an answer."""


class LimitReached(Exception):
    """The run took more time or memory than it may; its worker was ended."""


class WatchedWorker:
    """One worker process. It is started at once and serves one run after the other."""

    def __init__(
        self, store: Store, device: str, terms: Terms, *, environment: Mapping[str, str] | None = None
    ) -> None:
        self._terms = terms
        self._is_ready = False
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the worker)
        mirror = store.mirror.url if store.mirror else ""
        pace, track, retry = json.dumps(vars(terms.pace)), ",".join(terms.track), "retry" if terms.retry_failed else ""
        options = (str(store.root), device, mirror, pace, track, retry)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "supple_lab.sweep.remote.worker", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
            start_new_session=True,  # Ctrl-C is the driver's to handle
        )

    def execute(self, spec: RunSpec) -> State:
        """Send the run and wait for the answer."""
        assert self._process.stdin is not None
        self._wait_until_ready()
        try:
            print(spec.to_json(), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise self._died() from None
        answer = self._answer()
        if "busy" in answer:
            raise RunIsBusy(answer["busy"])
        if "error" in answer:
            raise RunError(answer["error"])
        state: State = answer["state"]
        return state

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """End the process at once; the store is built to bear it."""
        self._process.kill()
        self._process.wait()

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

    def _answer(self) -> dict[str, State]:
        assert self._process.stdout is not None
        started = time.monotonic()
        while not select.select([self._process.stdout], [], [], SECONDS_BETWEEN_LOOKS)[0]:
            if (reason := self._excess(time.monotonic() - started)) is not None:
                self.kill()
                raise LimitReached(reason)
        line = self._process.stdout.readline()
        if not line:
            raise self._died()
        answer: dict[str, State] = json.loads(line)
        return answer

    def _excess(self, seconds: float) -> str | None:
        time_limit, memory_limit = self._terms.time_limit, self._terms.memory_limit
        if time_limit is not None and seconds > time_limit:
            return f"time limit: the run took more than {time_limit / 60:g} minutes"
        if memory_limit is not None and (used := resident_bytes(self._process.pid)) > memory_limit:
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
    folder = store.folder(spec)
    num_deaths, furthest = 0, newest_serial(folder.path)
    while True:
        try:
            return worker().execute(spec)
        except LimitReached as limit:
            return fail(store, spec, str(limit))
        except WorkerDied as death:
            now = newest_serial(folder.path)
            num_deaths, furthest = num_deaths + 1 if now <= furthest else 1, now
            if num_deaths == NUM_ATTEMPTS or not is_wanted():
                raise RunError(f"{death} The run was tried {num_deaths} times; it stays resumable.") from death


def newest_serial(folder: Path) -> int:
    """The number of the run's newest checkpoint; they only grow."""
    return max((serial_of(path) for path in checkpoint_files(folder)), default=0)


def resident_bytes(pid: int) -> int:
    """Memory that the process has in use; 0 where it is gone or the system does not tell."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def fail(store: Store, spec: RunSpec, reason: str) -> State:
    """Say of a run whose worker was ended that it failed; a retry goes on from its checkpoints."""
    folder = store.folder(spec)
    with folder.held(spec):
        told = {name: value for name, value in folder.status().items() if name in ("progress", "accuracy", "seconds")}
        folder.write_status("failed", **told, reason=f"{reason}; --retry-failed continues it.")
        folder.copy_out()
    return "failed"
