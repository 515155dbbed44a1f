"""Growth: late stages of a run against early ones of another, in turns. Neither time nor memory may accumulate."""

import os
import resource
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from supple.methods.activations import UseAID
from supple.random import mask_stream
from supple_lab.data.digits import Digits
from supple_lab.models.mlp import MLP
from supple_lab.optimizer import Adam
from supple_lab.run.recorder import CheckpointInterval, Journal
from supple_lab.run.supervised import train
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.spec import RunSpec, Supervised
from supple_lab.store.store import Store

NUM_STAGES = 200
NUM_COMPARED = 20  # the last stages of the long run, the second to 21st of the short one
TITLE = f"growth: stage {NUM_STAGES} over stage 2, 100 steps each"


@dataclass(frozen=True)
class GrowthRow:
    """Late stages over early ones."""

    case: str
    late_over_early: float
    quartiles: tuple[float, float]
    megabytes_gained: float  # by the process, from the second stage of the long run to the last that it had alone
    gpu_megabytes_gained: float | None  # in the same stages, of the GPU
    stages: int


@dataclass(frozen=True)
class Held:
    """Memory held at a moment, in MiB: the process's own resident size, and what torch holds of a GPU."""

    host: float
    gpu: float

    @classmethod
    def now(cls, device: torch.device) -> "Held":
        """Read both; without a GPU nothing is there."""
        if device.type != "cuda":
            return cls(resident_bytes() / 2**20, 0.0)
        torch.cuda.empty_cache()  # what is left is in use, by captured graphs too, whose memory no tensor may be using
        return cls(resident_bytes() / 2**20, torch.cuda.memory_reserved(device) / 2**20)


def resident_bytes() -> int:
    """What the process holds now; where the system does not say, the most that it ever held.

    Without pages of files, such as torch's libraries, which the system takes and gives back as it likes.
    """
    statm = Path("/proc/self/statm")
    if statm.exists():
        _, resident, of_files, *_ = map(int, statm.read_text().split())
        return (resident - of_files) * os.sysconf("SC_PAGE_SIZE")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


class TakesTurns(Journal):
    """From a stage on, hands over to another run after each of its own, and notes how long each took."""

    def prepare(
        self, *, own_turn: threading.Semaphore, others_turn: threading.Semaphore, num_stages: int, first: int
    ) -> None:
        """Say by which sign whose turn it is, and from which stage on turns are taken."""
        self.own_turn, self.others_turn = own_turn, others_turn
        self.num_stages, self.first, self.began = num_stages, first, 0.0
        self.seconds_of: list[float] = []
        self.held: list[Held] = []

    def record_stage(self, **values: float) -> None:
        super().record_stage(**values)
        stage = int(values["stage"])
        if stage >= self.first:
            self.seconds_of.append(time.perf_counter() - self.began)
        elif stage > 0:  # while no other run has begun, whose memory would be counted, too
            self.held.append(Held.now(self.device))
        if stage >= self.first - 1:
            self.others_turn.release()
            if stage + 1 < self.num_stages:
                self.own_turn.acquire()
        self.began = time.perf_counter()


def bench_growth(device: torch.device) -> GrowthRow:
    """Run two hundred short stages, records and checkpoints included; near the end another run begins."""
    late_turn, early_turn = threading.Semaphore(0), threading.Semaphore(0)
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(Path(folder))
        late, late_spec = new_journal(store, device, num_stages=NUM_STAGES)
        early, early_spec = new_journal(store, device, num_stages=NUM_COMPARED + 1)
        late.prepare(own_turn=late_turn, others_turn=early_turn, num_stages=NUM_STAGES, first=NUM_STAGES - NUM_COMPARED)
        early.prepare(own_turn=early_turn, others_turn=late_turn, num_stages=NUM_COMPARED + 1, first=1)
        other = threading.Thread(target=train_when, args=(early_turn, early_spec, early), daemon=True)
        other.start()
        late_turn.release()
        train_when(late_turn, late_spec, late)
        other.join()
    ratios = np.quantile(np.divide(late.seconds_of, early.seconds_of), (0.25, 0.5, 0.75))
    low, middle, high = ratios.tolist()
    first, last = late.held[0], late.held[-1]
    return GrowthRow(
        case=TITLE,
        late_over_early=middle,
        quartiles=(low, high),
        megabytes_gained=last.host - first.host,
        gpu_megabytes_gained=last.gpu - first.gpu if device.type == "cuda" else None,
        stages=NUM_STAGES,
    )


def new_journal(store: Store, device: torch.device, *, num_stages: int) -> tuple[TakesTurns, RunSpec]:
    """A run of that many short stages, not begun."""
    problem = Supervised(scenario=RandomLabel(num_stages=num_stages, epochs=4), dataset=Digits())
    spec = RunSpec(problem=problem, model=MLP(width=128), method=UseAID(), optimizer=Adam(), seed=0)
    run = store.folder(spec)
    run.create(spec)
    return TakesTurns(run, device, CheckpointInterval(seconds=1e9, stages=1)), spec


def train_when(turn: threading.Semaphore, spec: RunSpec, journal: Journal) -> None:
    """Train once it is this run's turn."""
    turn.acquire()
    masks = torch.Generator(journal.device)
    assert isinstance(spec.problem, Supervised)
    with mask_stream(masks):
        train(spec, spec.problem, journal, masks)
