"""Ray: runs as tasks of a Ray cluster, a running one or one started for the purpose.

Ray ends a process whose cluster is lost, so a process of its own speaks to it (`ray_agent`). If that one dies, what it
had not finished is given to a new one, which finds or starts a cluster again.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Future
from contextlib import suppress
from importlib.util import find_spec

from supple_lab.spec import RunSpec
from supple_lab.store.reading import State
from supple_lab.store.store import Store
from supple_lab.sweep.executor import EngineMissing, Executor, Job, RunError, SweepOptions, settle

NUM_CLUSTERS = 3  # that may be lost, with no run ended in between
SECONDS_TO_JOIN = 30  # for the cluster at an address to answer
SECONDS_TO_START = 180  # for one to start, or for a lost one to come back
OUT_OF_TIME = -getattr(signal, "SIGALRM", 0)  # exit code of an agent that its alarm ended
SECONDS_TO_END = 20.0  # for an agent to shut its cluster down
SECONDS_WITHOUT_HEAD = 15  # that a cluster of our own lives on; Ray's 60 are for heads that are restarted


class Ray(Executor):
    """Tasks on a Ray cluster: the one at --address, or one started on this machine."""

    name = "ray"
    is_here = False

    def __init__(self, store: Store, *, device: str, jobs: int, options: SweepOptions | None = None) -> None:
        super().__init__(store, device=device, jobs=jobs, options=options)
        self._guard = threading.Lock()
        self._waiting: dict[str, tuple[RunSpec, Future[State]]] = {}
        self._stopping = False
        self._num_lost = 0
        self._why_not = ""  # if there is no cluster to begin with
        self._connected = threading.Event()  # set then, too
        self._start_agent(SECONDS_TO_JOIN if self.options.address else SECONDS_TO_START)
        self._connected.wait()
        if self._why_not:
            raise EngineMissing(self._why_not)

    @classmethod
    def check_installed(cls) -> None:
        if find_spec("ray") is None:
            raise EngineMissing("the engine ray needs the package ray: pip install -e '.[ray]' in a checkout.")
        if " " in sys.executable:  # Ray cuts the command of its workers at spaces, and waits for them for ever
            raise EngineMissing(
                f"Ray cannot start workers of a Python under a path with spaces ({sys.executable}). Install supple "
                "elsewhere, or use --engine process."
            )

    @classmethod
    def default_jobs(cls, num_runs: int, *, device: str, options: SweepOptions) -> int:
        return num_runs if options.address else super().default_jobs(num_runs, device=device, options=options)

    def submit(self, spec: RunSpec) -> Future[State]:
        future: Future[State] = Future()
        with self._guard:
            if self._num_lost == NUM_CLUSTERS:
                future.set_exception(RunError("the Ray cluster is lost. The same command continues."))
            else:
                self._waiting[spec.run_id] = spec, future
                self._send({"run": spec.run_id, "spec": spec.to_json()})
        return future

    def stop(self) -> None:
        with self._guard:
            self._stopping = True
            agent = self._agent
        assert agent.stdin is not None
        with suppress(OSError):  # what could not be sent to an agent that died
            agent.stdin.close()  # an agent without input shuts its cluster down and ends
        try:
            agent.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            agent.kill()
        self._listener.join()

    def _start_agent(self, seconds: int) -> None:
        own = {} if self.options.address else {"RAY_gcs_rpc_server_reconnect_timeout_s": str(SECONDS_WITHOUT_HEAD)}
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the agent)
        self._agent = subprocess.Popen(
            [sys.executable, "-m", "supple_lab.sweep.remote.ray_agent", Job.of(self).to_json(), str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            env={**os.environ, **own},
            start_new_session=True,
        )
        self._listener = threading.Thread(target=self._listen, args=(self._agent,), daemon=True, name="ray")
        self._listener.start()

    def _send(self, message: dict[str, str]) -> None:
        assert self._agent.stdin is not None
        with suppress(BrokenPipeError):  # the listener finds out, and sends it to the next agent
            print(json.dumps(message), file=self._agent.stdin, flush=True)

    def _listen(self, agent: subprocess.Popen[str]) -> None:
        assert agent.stdout is not None
        for line in agent.stdout:
            answer = json.loads(line)
            if "connected" in answer:
                self._connected.set()
                continue
            with self._guard:
                _, future = self._waiting.pop(answer["run"], (None, None))
                self._num_lost = 0  # it was of use: only losses in a row are counted
            if future is not None:
                settle(future, answer)
        self._replace(agent)

    def _replace(self, agent: subprocess.Popen[str]) -> None:
        code = agent.wait()
        assert agent.stdin is not None
        with self._guard:
            with suppress(OSError):  # what it did not read any more; left open, Python 3.13 complains as it ends
                agent.stdin.close()
            self._num_lost += 1
            if not self._connected.is_set():
                self._why_not, self._num_lost = self._no_cluster(code), NUM_CLUSTERS
                self._connected.set()
                return
            if self._stopping or self._num_lost == NUM_CLUSTERS:
                self._give_up(f"the Ray cluster was lost ({self._last_words(code)}). The same command continues.")
                return
            try:
                self._start_agent(SECONDS_TO_START)
            except OSError as error:  # no memory or no descriptors left, say
                self._give_up(
                    f"the Ray cluster was lost, and looking for it failed ({error}). The same command continues."
                )
                return
            for run, (spec, _) in self._waiting.items():
                self._send({"run": run, "spec": spec.to_json()})

    def _give_up(self, reason: str) -> None:
        self._num_lost = NUM_CLUSTERS
        for _, future in self._waiting.values():
            future.set_exception(RunError(reason))
        self._waiting.clear()

    def _no_cluster(self, code: int) -> str:
        address = self.options.address
        if address is None:
            return f"Ray could not start a cluster on this machine: {self._last_words(code)}"
        told = f"no answer in {SECONDS_TO_JOIN} seconds." if code == OUT_OF_TIME else self._last_words(code)
        return (
            f"no Ray cluster can be used at --address {address}: {told} Start one there with `ray start --head`, "
            "or leave --address out to have one started on this machine."
        )

    def _last_words(self, code: int) -> str:
        if code == OUT_OF_TIME:
            return "no answer in time"
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        told = [line for line in lines if "Error" in line or "Failed" in line]
        return (told or lines or [f"exit code {code}"])[-1][:300]
