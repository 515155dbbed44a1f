"""A SLURM job: one run after the other, or as many at once as share a GPU, in worker processes on SLURM's node.

And how its driver watches it on a cluster without accounting, which has no sacct to ask.
"""

import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

from submitit.core.utils import DelayedSubmission
from submitit.slurm.slurm import SlurmExecutor, SlurmInfoWatcher, SlurmJob

from supple_lab.spec import RunSpec
from supple_lab.sweep.executor import Job
from supple_lab.sweep.local import Process
from supple_lab.sweep.sweep import execute_all


@dataclass(frozen=True)
class RunsOfAJob:
    """Called on the node. Submitted again when SLURM takes the node away: the runs go on from their checkpoints."""

    specs: tuple[str, ...]  # as JSON, so that what is pickled does not depend on our classes
    job: Job

    def __call__(self) -> dict[str, dict[str, str]]:
        """How each run ended, or why it could not be executed, by its id."""
        store = self.job.store()
        specs = [RunSpec.from_json(spec) for spec in self.specs]
        jobs = min(len(specs), self.job.runs_at_once)
        engine = Process(store, device=self.job.device, jobs=jobs, options=self.job.options)
        could_not = {failure.spec.run_id: failure.reason for failure in execute_all(specs, engine)}
        answers: dict[str, dict[str, str]] = {spec.run_id: {"state": store.folder(spec).state()} for spec in specs}
        return answers | {run: {"error": reason} for run, reason in could_not.items()}

    def checkpoint(self) -> DelayedSubmission:
        """What submitit sends when it was told that the node is taken away, or that time is up."""
        return DelayedSubmission(self)


# What squeue calls a job that does not go on; others pass, such as SIGNALING while a job is told to make room.
ENDED = (
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "FORGOTTEN",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "TIMEOUT",
)


class QueueWatcher(SlurmInfoWatcher):
    """Asks squeue, which forgets a job minutes after its end."""

    def _make_command(self) -> list[str] | None:
        asked = super()._make_command()
        return asked and ["squeue", "--me", "--array", "--states=all", "--noheader", "--format=%i|%T|%N"]

    def read_info(self, string: bytes | str) -> dict[str, dict[str, str]]:
        queue = string if isinstance(string, str) else string.decode()
        forgotten = {job: {"State": "FORGOTTEN"} for job in self._registered}
        return forgotten | super().read_info(f"JobID|State|NodeList\n{queue}")

    def is_done(self, job_id: str, mode: str = "standard") -> bool:
        return self.get_state(job_id, mode=mode) in ENDED


class QueuedJob(SlurmJob[Any]):
    watcher = QueueWatcher(delay_s=60)


class QueueExecutor(SlurmExecutor):
    job_class = QueuedJob


def executor_class() -> type[SlurmExecutor]:
    """submitit's own if the cluster keeps accounts; else one that asks the queue."""
    accounts = shutil.which("sacct") and subprocess.run(["sacct", "--jobs=1"], capture_output=True).returncode == 0
    return SlurmExecutor if accounts else QueueExecutor
