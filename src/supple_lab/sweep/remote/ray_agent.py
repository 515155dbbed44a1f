"""The process that speaks to Ray on behalf of a driver: runs come in as lines, how each ended goes out as lines.

Started as ``python -m supple_lab.sweep.remote.ray_agent ORDER SECONDS``, the time it has to reach a cluster. It ends,
and a cluster that it started with it, when its input closes.
"""

import json
import logging
import os
import queue
import signal
import sys
import threading
from collections import deque
from typing import Any, TextIO

import ray

from supple_lab.sweep.remote.ray_task import execute_task

Job = dict[str, Any]  # as the driver wrote it: decoding it takes torch, and the agent does without

SECONDS_BETWEEN_LOOKS = 0.05
NUM_RETRIES = 20  # of a task whose worker or node is lost; one that kills its own worker must not do so for ever
SECONDS_TO_SHUT_DOWN = 15.0
PASSED_ON = ("SUPPLE_DATA", "SUPPLE_PLUGIN")  # variables that runs need; a cluster's workers have others of their own


class Agent:
    """Keeps as many tasks in Ray's hands as runs may be at work."""

    def __init__(self, job: Job, answers: TextIO) -> None:
        self._job = job
        self._answers = answers
        self._task = task_for(job)
        self._pending: deque[dict[str, str]] = deque()
        self._at_work: dict[Any, str] = {}

    def serve(self, messages: "queue.Queue[dict[str, str]]") -> None:
        """Until the process ends."""
        while True:
            while not messages.empty() or not (self._pending or self._at_work):
                self._pending.append(messages.get())
            while self._pending and len(self._at_work) < self._job["jobs"]:
                message = self._pending.popleft()
                self._at_work[self._task.remote(message["spec"], self._job)] = message["run"]
            if self._at_work:
                for reference in ray.wait(list(self._at_work), timeout=SECONDS_BETWEEN_LOOKS)[0]:
                    self._answer(self._at_work.pop(reference), **result_of(reference))

    def _answer(self, run: str, **content: str) -> None:
        print(json.dumps({"run": run, **content}), file=self._answers, flush=True)


def main(job: Job, seconds: int) -> None:
    """Serve until the input closes; die of an alarm if no cluster is reached in time."""
    if sys.platform == "win32":
        raise NotImplementedError("no run starts on Windows")
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # Ray prints what it likes
    messages: queue.Queue[dict[str, str]] = queue.Queue()
    threading.Thread(target=_read, args=(sys.stdin, messages), daemon=True).start()
    signal.alarm(seconds)  # the kernel keeps it, whatever Ray's own code does: it tries for more than three minutes
    connect(job)
    signal.alarm(0)
    print(json.dumps({"connected": True}), file=answers, flush=True)
    Agent(job, answers).serve(messages)


def connect(job: Job) -> None:
    """Join the cluster that was named, or start one with as many places as runs may be at work."""
    address = job["options"]["address"]
    if address:
        place: dict[str, Any] = {"address": address}
    else:
        place = {"address": "local", "num_cpus": job["jobs"], "include_dashboard": False}
    passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment = {"env_vars": {"OMP_NUM_THREADS": "1", **passed_on}}
    ray.init(**place, runtime_env=environment, log_to_driver=False, logging_level=logging.ERROR)


def task_for(job: Job) -> Any:
    """The remote function with what a run takes: one core, and its share of a GPU."""
    wanted: dict[str, Any] = {"num_cpus": 1, "max_retries": NUM_RETRIES}
    if job["device"] == "cuda":
        wanted["num_gpus"] = 1 / job["options"]["per_gpu"]
    return ray.remote(**wanted)(execute_task)


def result_of(reference: Any) -> dict[str, str]:
    """How the task ended, in the words of the process engine."""
    try:
        result: dict[str, str] = ray.get(reference)
    except Exception as error:  # its workers died too often
        return {"error": f"{str(error).strip().splitlines()[-1]} The run stays resumable."}
    return result


def _read(stdin: TextIO, messages: "queue.Queue[dict[str, str]]") -> None:
    for line in stdin:
        messages.put(json.loads(line))
    threading.Timer(SECONDS_TO_SHUT_DOWN, os._exit, (1,)).start()
    ray.shutdown()
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), int(sys.argv[2]))
