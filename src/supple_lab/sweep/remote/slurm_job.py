"""A SLURM job: one run after the other, or as many at once as share a GPU, in worker processes on SLURM's node."""

from dataclasses import dataclass

from submitit.core.utils import DelayedSubmission

from supple_lab.spec import RunSpec
from supple_lab.sweep.executor import Job
from supple_lab.sweep.local import Process
from supple_lab.sweep.sweep import execute_all


@dataclass(frozen=True)
class RunsOfAJob:
    """Called on the node. Submitted anew when SLURM takes the node away: the runs go on from their checkpoints."""

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
