"""A run as a Ray task: in the Ray worker itself, or, if it has limits, in a worker process that it watches.

Imports what it needs when it is called: the agent only names the function, and starts sooner without torch.
"""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from supple_lab.sweep.executor import Job
    from supple_lab.sweep.local import WatchedWorker

_workers: "dict[str, WatchedWorker]" = {}  # the worker process of this Ray worker, by the GPU that it was given


def execute_task(spec_json: str, written_job: dict[str, Any]) -> dict[str, str]:
    """How the run ended. If this process itself is killed, Ray retries: the run goes on from its checkpoint."""
    from supple_lab.codec import decode
    from supple_lab.spec import RunSpec
    from supple_lab.sweep.executor import Job, answer_of
    from supple_lab.sweep.local import execute_persistently

    job: Job = decode(Job, written_job)
    store, spec = job.store(), RunSpec.from_json(spec_json)
    if job.options.time_limit is not None or job.options.memory_limit is not None:
        return answer_of(lambda: execute_persistently(spec, store, worker=lambda: _worker(job)))
    return answer_of(lambda: job.execute(spec, store))


def _worker(job: "Job") -> "WatchedWorker":
    from supple_lab.sweep.local import WatchedWorker

    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if gpu not in _workers or not _workers[gpu].is_alive():
        if gpu in _workers:
            _workers[gpu].close()
        _workers[gpu] = WatchedWorker(job)
    return _workers[gpu]
