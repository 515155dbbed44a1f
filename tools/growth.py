"""Growth: late stages of a run against early ones of another, in turns. Neither time nor memory may accumulate.

python tools/growth.py [cpu|cuda]   # 200 stages; the last 20 over the second to 21st, and the memory gained
"""

import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Semaphore, Thread

import numpy as np
import torch

from supple.methods import UseAID
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
    """What the process holds now; if the system does not say, the most that it ever held.

    Without pages of files, such as torch's libraries, which the system takes and gives back as it likes.
    """
    if sys.platform == "win32":
        raise NotImplementedError("no run starts on Windows")
    statm = Path("/proc/self/statm")
    if statm.exists():
        _, resident, of_files, *_ = map(int, statm.read_text().split())
        return (resident - of_files) * os.sysconf("SC_PAGE_SIZE")
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


class TakesTurns(Journal):
    """A run of short stages: from one on, it hands over to another run after each, and notes how long each took."""

    def __init__(
        self, store: Store, device: torch.device, turns: tuple[Semaphore, Semaphore], *, num_stages: int, first: int
    ) -> None:
        self.problem = Supervised(scenario=RandomLabel(num_stages=num_stages, epochs=4), dataset=Digits())
        self.spec = RunSpec(problem=self.problem, model=MLP(width=128), method=UseAID(), optimizer=Adam(), seed=0)
        run = store.folder(self.spec)
        run.create(self.spec)
        super().__init__(run, device, CheckpointInterval(seconds=1e9, stages=1))
        self.own_turn, self.others_turn = turns
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

    def train(self) -> None:
        """Train once it is this run's turn."""
        self.own_turn.acquire()
        masks = torch.Generator(self.device)
        with mask_stream(masks):
            train(self.spec, self.problem, self, masks)


def main(device: torch.device) -> None:
    """Run two hundred short stages, records and checkpoints included; near the end another run begins."""
    late_turn, early_turn = Semaphore(1), Semaphore(0)
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(Path(folder))
        first = NUM_STAGES - NUM_COMPARED
        late = TakesTurns(store, device, (late_turn, early_turn), num_stages=NUM_STAGES, first=first)
        early = TakesTurns(store, device, (early_turn, late_turn), num_stages=NUM_COMPARED + 1, first=1)
        other = Thread(target=early.train, daemon=True)
        other.start()
        late.train()
        other.join()
    low, middle, high = np.quantile(np.divide(late.seconds_of, early.seconds_of), (0.25, 0.5, 0.75)).tolist()
    print(f"late over early: {middle:.3f} [{low:.3f}, {high:.3f}], quartiles of {NUM_COMPARED} stages of 100 steps")
    first, last = late.held[0], late.held[-1]
    print(f"memory gained: {last.host - first.host:.1f} MiB; on the GPU: {last.gpu - first.gpu:.1f} MiB")


if __name__ == "__main__":
    main(torch.device(sys.argv[1] if len(sys.argv) > 1 else "cpu"))
