"""A run as a Ray task: the Ray worker hands it to a worker process of its own and watches it."""

import os
from pathlib import Path

from supple_lab.runs.lease import RunIsBusy
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.store import Store
from supple_lab.sweep.executor import RunError
from supple_lab.sweep.order import Order
from supple_lab.sweep.watched_worker import LimitReached, WatchedWorker, fail

_workers: dict[str, WatchedWorker] = {}  # the worker process of this Ray worker, by the GPU that it was given


def execute_watched(spec_json: str, order: Order) -> dict[str, str]:
    """How the run ended. WorkerDied is Ray's to retry: the run goes on from its checkpoint."""
    store = Store.create(Path(order.out), mirror=order.mirror)
    spec = RunSpec.from_json(spec_json)
    try:
        return {"state": _worker(store, order).execute(spec)}
    except RunIsBusy as busy:
        return {"busy": str(busy)}
    except LimitReached as limit:
        return {"state": fail(store, spec, str(limit))}
    except RunError as error:
        return {"error": str(error)}


def _worker(store: Store, order: Order) -> WatchedWorker:
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if gpu not in _workers or not _workers[gpu].is_alive():
        _workers[gpu] = WatchedWorker(store, order.device, order.terms)
    return _workers[gpu]
