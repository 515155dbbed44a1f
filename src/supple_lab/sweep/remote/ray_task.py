"""A run as a Ray task: in the Ray worker itself, or, where it has limits, in a worker process that it watches.

Imports what it needs when it is called: the agent only names the function, and starts sooner without torch.
"""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from supple_lab.store.store import Store
    from supple_lab.sweep.executor import Order
    from supple_lab.sweep.local import WatchedWorker

_workers: "dict[str, WatchedWorker]" = {}  # the worker process of this Ray worker, by the GPU that it was given


def execute_task(spec_json: str, written_order: dict[str, Any]) -> dict[str, str]:
    """How the run ended. Where this process itself is killed, Ray retries: the run goes on from its checkpoint."""
    from pathlib import Path

    from supple_lab.errors import Interrupted, end_process
    from supple_lab.run.run import execute
    from supple_lab.spec import RunSpec
    from supple_lab.store.lock import RunIsBusy
    from supple_lab.store.store import Store
    from supple_lab.sweep.executor import Order
    from supple_lab.sweep.local import execute_persistently

    order = Order.from_dict(written_order)
    store, spec = Store.create(Path(order.out), mirror=order.mirror), RunSpec.from_json(spec_json)
    try:
        if order.terms.has_limits:
            return {"state": execute_persistently(spec, store, worker=lambda: _worker(store, order))}
        terms = order.terms
        state = execute(spec, store, device=order.device, pace=terms.pace, track=terms.track, settled=terms.settled)
        return {"state": state}
    except RunIsBusy as busy:
        return {"busy": str(busy)}
    except Interrupted as error:
        end_process(error)
    except Exception as error:  # the driver tells it, under the run's name
        return {"error": str(error) or type(error).__name__}


def _worker(store: "Store", order: "Order") -> "WatchedWorker":
    from supple_lab.sweep.local import WatchedWorker

    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if gpu not in _workers or not _workers[gpu].is_alive():
        if gpu in _workers:
            _workers[gpu].close()
        _workers[gpu] = WatchedWorker(store, order.device, order.terms)
    return _workers[gpu]
