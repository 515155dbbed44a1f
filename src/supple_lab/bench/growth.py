"""Growth: a late stage against an early one. Nothing may accumulate: neither time nor memory."""

import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from supple.mask_stream import mask_stream
from supple.methods.activations import UseAID
from supple_lab.data.digits import Digits
from supple_lab.models.mlp import MLP
from supple_lab.runs.journal import Journal, Pace
from supple_lab.runs.optimizer import Adam
from supple_lab.runs.problem import Supervised
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.store import Store
from supple_lab.runs.supervised import train
from supple_lab.scenarios.random_label import RandomLabel

NUM_STAGES = 200
EARLY, LATE = slice(1, 21), slice(180, 200)  # stages 2 to 21 and the last twenty; the first one warms up


@dataclass(frozen=True)
class GrowthRow:
    """Late stages over early ones."""

    case: str
    late_over_early: float
    quartiles: tuple[float, float]
    megabytes_gained: float
    stages: int


class TimedJournal(Journal):
    """Notes when each stage ended, and the most memory the process had by then."""

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)  # type: ignore[arg-type]
        self.ends: list[float] = []
        self.peaks: list[float] = []

    def record_stage(self, **values: float) -> None:
        super().record_stage(**values)
        self.ends.append(time.process_time())  # wall time would say how busy the machine is
        self.peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def bench_growth(device: torch.device) -> GrowthRow:
    """Run two hundred short stages, records and checkpoints included, and compare their times."""
    scenario = RandomLabel(num_stages=NUM_STAGES, epochs=4)
    problem = Supervised(scenario=scenario, dataset=Digits())
    spec = RunSpec(problem=problem, model=MLP(width=128), method=UseAID(), optimizer=Adam(), seed=0)
    with tempfile.TemporaryDirectory() as folder:
        run = Store.create(Path(folder)).folder(spec)
        run.create(spec)
        journal = TimedJournal(run, device, Pace(seconds=1e9, stages=1))
        masks = torch.Generator(device)
        with mask_stream(masks):
            train(spec, problem, journal, masks)
    seconds = np.diff(journal.ends, prepend=np.nan)
    ratios = np.quantile(seconds[LATE], (0.25, 0.5, 0.75)) / np.median(seconds[EARLY])
    low, middle, high = ratios.tolist()
    gained = journal.peaks[-1] - journal.peaks[EARLY.stop]
    return GrowthRow(f"{NUM_STAGES} stages of 100 steps", middle, (low, high), gained, NUM_STAGES)
