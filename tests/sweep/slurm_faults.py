"""A run on a real SLURM with something done to its job. Run inside a namespace by test_slurm; an argument names it."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import slurm_here

from small_runs import small_spec
from supple_lab.cli import supple
from supple_lab.store.store import Store
from supple_lab.sweep.executor import RunError, SweepOptions
from supple_lab.sweep.remote.slurm_job import QueuedJob
from supple_lab.sweep.slurm_engine import Slurm

FAULTS = {
    "requeue": "scontrol requeue {job}",
    "term": "scancel --signal=TERM {job}",
    "usr2": "scancel --signal=USR2 {job}",  # what submitit has SLURM send before the time is up
    "preempt": "sbatch --partition=high --exclusive --output=/dev/null --wrap=true",
    "cancel": "scancel {job}",
}


def suffer(store: Store, fault: str) -> None:
    """Submit a run, do that to its job once there is a checkpoint, and print how it ended."""
    spec = small_spec(num_stages=400, epochs=20)
    with Slurm(store, device="cpu", jobs=1, options=SweepOptions(checkpoint_seconds=0.2)) as engine:
        future = engine.submit(spec)
        job = engine._jobs[0][0].job_id
        while not list(store.folder(spec).path.glob("checkpoint-*.pt")):
            time.sleep(0.02)
        subprocess.run(FAULTS[fault].format(job=job).split(), check=True)
        while not future.done():
            if b"Reason=BeginTime" in (shown := slurm_here.said("scontrol", "show", "job", job)):
                slurm_here.said("scontrol", "update", f"JobId={job}", "StartTime=now")  # else after two minutes
            time.sleep(0.5)
        ended = str(future.exception()) if isinstance(future.exception(), RunError) else future.result()
    shown = slurm_here.said("scontrol", "show", "job", job).decode()
    print(f"ended: {ended}; restarts: {re.search(r'Restarts=([0-9]+)', shown)[1]}")


if __name__ == "__main__":
    out, fault = map(Path, sys.argv[1:])
    QueuedJob.watcher._delay_s = 1
    with slurm_here.cluster(Path(os.environ["HOME"])):
        if str(fault) == "quickstart":
            words = f"run quickstart --scale smoke --engine slurm --out {out}"
            sys.exit(supple(words.split()))
        suffer(Store.create(out), str(fault))
