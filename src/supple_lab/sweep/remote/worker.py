"""A worker process: reads run specs line by line, executes them, answers with how each ended.

Started as ``python -m supple_lab.sweep.remote.worker JOB``, the job as JSON. It ends at once when its input closes,
however that comes about, so that a killed driver leaves no orphans.
"""

import json
import os
import queue
import sys
import threading
from typing import TextIO

from supple_lab.codec import decode
from supple_lab.errors import Terminated, end_process, heed_sigterm_
from supple_lab.spec import RunSpec
from supple_lab.store.store import Store
from supple_lab.sweep.executor import Job, answer_of

READY = "ready"  # said once, before the first run is taken, so that starting up does not count as its time


def main(job: Job) -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a stray print must not be taken for an answer
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(sys.stdin, lines), daemon=True).start()
    store = job.store()
    heed_sigterm_()
    print(READY, file=answers, flush=True)
    try:
        while True:
            print(json.dumps(answer(lines.get(), store, job)), file=answers, flush=True)
    except Terminated as terminated:
        end_process(terminated)


def answer(line: str, store: Store, job: Job) -> dict[str, str]:
    """Execute one run; its state, or the error that kept it from being executed."""
    return answer_of(lambda: job.execute(RunSpec.from_json(line), store))


def _read(stdin: TextIO, lines: queue.Queue[str]) -> None:
    for line in stdin:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    main(decode(Job, json.loads(sys.argv[1])))
