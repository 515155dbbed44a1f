"""SLURM: runs as job arrays through submitit. A job that is preempted or out of time is queued again and goes on."""

import math
import shutil
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from importlib.util import find_spec
from typing import Any

from supple_lab.spec import RunSpec
from supple_lab.store.reading import State
from supple_lab.store.store import Store
from supple_lab.sweep.executor import EngineMissing, Executor, Job, RunError, SweepOptions, settle

SECONDS_BETWEEN_LOOKS = 2.0  # at the files in which jobs leave their answers
MAX_TIMES_OUT_OF_TIME = 1000  # a job out of time is queued again: runs are as long as they are
DEFAULT_MINUTES = 240  # of one job by default: short ones start sooner, and the end loses nothing
MAX_ARRAY = 1000  # jobs of one array: SLURM's MaxArraySize is 1001 unless its administrator says otherwise
GIB_BESIDES = 2  # for the process that watches, and the libraries of all


class Slurm(Executor):
    """Job arrays on a SLURM cluster, through submitit; --out must be on a disk that the nodes share."""

    name = "slurm"
    is_here = False

    def __init__(self, store: Store, *, device: str, jobs: int, options: SweepOptions | None = None) -> None:
        super().__init__(store, device=device, jobs=jobs, options=options)
        self._executor = self._submitit()
        self._places: int = self._executor.parameters["array_parallelism"]  # jobs at once, in all arrays together
        self._guard = threading.Lock()
        self._jobs: list[tuple[Any, dict[str, Future[State]]]] = []
        self._ended = threading.Event()
        self._listener = threading.Thread(target=self._listen, daemon=True, name="slurm")
        self._listener.start()

    @classmethod
    def check_installed(cls) -> None:
        if find_spec("submitit") is None:
            raise EngineMissing("the engine slurm needs the package submitit: pip install -e '.[slurm]' in a checkout.")
        if shutil.which("sbatch") is None or shutil.which("srun") is None:
            raise EngineMissing("the engine slurm needs sbatch and srun: start it where jobs are submitted.")

    @classmethod
    def default_jobs(cls, num_runs: int, *, device: str, options: SweepOptions) -> int:
        return num_runs

    def submit(self, spec: RunSpec) -> Future[State]:
        return self.submit_all([spec])[0]

    def submit_all(self, specs: Sequence[RunSpec]) -> list[Future[State]]:
        from supple_lab.sweep.remote.slurm_job import RunsOfAJob  # needs submitit, which not everybody has

        futures: dict[str, Future[State]] = {spec.run_id: Future() for spec in specs}
        job = Job.of(self)
        arrays = divide(specs, places=self._places, size=job.runs_at_once)
        for index, array in enumerate(arrays):
            share = self._places // len(arrays) + (index < self._places % len(arrays))
            jobs = [RunsOfAJob(tuple(spec.to_json() for spec in runs), job) for runs in array]
            self._submit_array(jobs, [{spec.run_id: futures[spec.run_id] for spec in runs} for runs in array], share)
        return list(futures.values())

    def _submit_array(self, jobs: Sequence[Any], futures: Sequence[dict[str, Future[State]]], at_once: int) -> None:
        """Send jobs to SLURM together; if it refuses, their runs fail with its words, and other arrays go on."""
        from submitit.core.utils import FailedJobError

        self._executor.update_parameters(array_parallelism=at_once)
        try:
            with self._guard, self._executor.batch():
                submitted = [self._executor.submit(job) for job in jobs]
        except FailedJobError as error:
            last_words = str(error).strip().splitlines()[-1:] or ["no reason was given"]
            for of_job in futures:
                give_up(of_job, f"sbatch refused: {last_words[0]}. The same command submits the run again.")
            return
        with self._guard:
            self._jobs.extend(zip(submitted, futures, strict=True))

    def stop(self) -> None:
        self._ended.set()
        self._listener.join()
        for job, futures in self._jobs:
            job.cancel()
            give_up(futures, "the sweep was stopped; the run stays resumable.")

    def _submitit(self) -> Any:
        from supple_lab.sweep.remote.slurm_job import executor_class

        executor = executor_class()(self.store.root / "slurm", max_num_timeout=MAX_TIMES_OUT_OF_TIME)
        size = Job.of(self).runs_at_once
        wanted: dict[str, Any] = {"job_name": "supple", "time": DEFAULT_MINUTES, "cpus_per_task": size}
        wanted["array_parallelism"] = max(1, self.jobs // size)
        if self.device == "cuda":
            wanted["gpus_per_node"] = 1
        if self.options.memory_limit is not None:
            wanted["mem"] = f"{size * self.options.memory_limit // 2**30 + GIB_BESIDES}GB"
        try:
            executor.update_parameters(**wanted | dict(_named(item) for item in self.options.slurm))
        except ValueError as error:
            raise EngineMissing(f"--slurm: {error}") from error
        return executor

    def _listen(self) -> None:
        while not self._ended.wait(SECONDS_BETWEEN_LOOKS):
            with self._guard:
                ended = [pair for pair in self._jobs if pair[0].done()]
                self._jobs = [pair for pair in self._jobs if pair not in ended]
            for job, futures in ended:
                try:
                    answers = job.result()
                except Exception as error:  # the job was ended from outside, or could not start
                    last_words = str(error).strip().splitlines()[-1:] or [type(error).__name__]
                    log = f"(log: {job.paths.stderr})"
                    give_up(futures, f"SLURM job {job.job_id} gave no answer: {last_words[0]} {log}")
                    continue
                for run, future in futures.items():
                    settle(future, answers[run])


def divide(specs: Sequence[RunSpec], *, places: int, size: int) -> list[list[Sequence[RunSpec]]]:
    """The runs of each job of each array: as few arrays as will hold them, and no more than may have a place each.

    If those are too few, a job has several times the ``size`` runs that it executes at once.
    """
    num_jobs = math.ceil(len(specs) / size)
    num_arrays = min(places, math.ceil(num_jobs / MAX_ARRAY))
    of_job = size * max(1, math.ceil(num_jobs / (MAX_ARRAY * max(1, num_arrays))))
    jobs = [specs[start : start + of_job] for start in range(0, len(specs), of_job)]
    return [jobs[start : start + MAX_ARRAY] for start in range(0, len(jobs), MAX_ARRAY)]


def give_up(futures: dict[str, Future[State]], reason: str) -> None:
    for future in futures.values():
        future.set_exception(RunError(reason))


def _named(item: str) -> tuple[str, Any]:
    name, _, value = item.partition("=")
    return name, int(value) if value.isdigit() else value
