"""Terms: what a sweep grants each of its runs. None of it changes a number."""

from dataclasses import dataclass, field

from supple_lab.runs.journal import Pace
from supple_lab.runs.run_folder import SETTLED, State


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The share of a GPU, the time and the memory that a run may have, and where the runs find a cluster."""

    per_gpu: int = 1  # runs at once on one GPU
    time_limit: float | None = None  # seconds for one attempt at a run; what takes longer has failed
    memory_limit: int | None = None  # bytes of a run's process, mapped files not counted; what takes more has failed
    pace: Pace = field(default_factory=Pace)
    track: tuple[str, ...] = ()  # names of trackers that are told what a run records
    address: str | None = None  # of a running Ray cluster
    slurm: tuple[str, ...] = ()  # what sbatch is told besides, as NAME=VALUE
    retry_failed: bool = False  # whether runs that failed or diverged before are tried again

    @property
    def has_limits(self) -> bool:
        """Whether somebody must watch the run's process."""
        return self.time_limit is not None or self.memory_limit is not None

    @property
    def settled(self) -> tuple[State, ...]:
        """States in which a run is left as it is, also where it came to be so after the sweep's start."""
        return ("done",) if self.retry_failed else SETTLED
