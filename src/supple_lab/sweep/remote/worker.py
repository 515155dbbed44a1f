"""A worker process: reads run specs line by line, executes them, answers with how each ended.

Started as ``python -m supple_lab.sweep.remote.worker ORDER``, an Order as JSON. It ends at once when its input closes,
however that comes about, so that a killed driver leaves no orphans.
"""

import json
import os
import queue
import sys
import threading
from pathlib import Path
from typing import TextIO

from supple_lab.errors import Interrupted, end_process
from supple_lab.run.run import execute
from supple_lab.spec import RunSpec
from supple_lab.store.lock import RunIsBusy
from supple_lab.store.store import Store
from supple_lab.sweep.executor import Order, Terms

READY = "ready"  # said once, before the first run is taken, so that starting up does not count as its time


def main(order: Order) -> None:
    """Serve until the input closes."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a stray print must not be taken for an answer
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(sys.stdin, lines), daemon=True).start()
    store = Store.create(Path(order.out), mirror=order.mirror)
    print(READY, file=answers, flush=True)
    while True:
        print(json.dumps(answer(lines.get(), store, order.device, order.terms)), file=answers, flush=True)


def answer(line: str, store: Store, device: str, terms: Terms) -> dict[str, str]:
    """Execute one run; its state, or the error that kept it from being executed.

    A run that was interrupted ends this process: the driver takes it up again in one that nothing happened to.
    """
    try:
        spec = RunSpec.from_json(line)
        state = execute(spec, store, device=device, pace=terms.pace, track=terms.track, settled=terms.settled)
        return {"state": state}
    except RunIsBusy as error:
        return {"busy": str(error)}
    except Interrupted as error:
        end_process(error)
    except Exception as error:  # the driver tells it, under the run's name
        return {"error": f"{error}" or type(error).__name__}


def _read(stdin: TextIO, lines: queue.Queue[str]) -> None:
    for line in stdin:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    main(Order.from_dict(json.loads(sys.argv[1])))
