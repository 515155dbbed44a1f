"""supple bench: speed, as ratios measured side by side in one process."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from supple import kernels
from supple.monitor import DEFAULT_EVERY
from supple_lab import registry
from supple_lab.bench.atari import AtariRow, bench_atari
from supple_lab.bench.kernels import Row, bench_kernels
from supple_lab.bench.methods import MethodRow, bench_methods
from supple_lab.bench.models import ModelRow, bench_models
from supple_lab.bench.monitor import MonitorRow, bench_monitor
from supple_lab.bench.sweep import SECONDS_PER_RUN, SweepRow, bench_sweep
from supple_lab.bench.training import TrainingRow, bench_training
from supple_lab.commands.base import DONE, BadUsage, Command, Device, check_device
from supple_lab.commands.terminal import print_table
from supple_lab.files import atomic_write, open_part
from supple_lab.precision import Numerics
from supple_lab.provenance import gather_provenance

EXAMPLES = {  # of titles, for --only
    "kernels": "'2^20, float32, forward'",
    "methods": "'MLP 3x128, batch 64'",
    "models": "'ResNet-18, batch 128, eager'",
    "training": "'MLP 3x2000, batch 64'",
}


@dataclass(frozen=True, kw_only=True)
class Bench(Command):
    """Measure speed against what people use now: ratios in one process, so that a noisy machine matters less."""

    name = "bench"
    what: str = field(metadata={"place": "WHAT"})
    """atari: steps of a DQN run; kernels: the activation as an operator; methods: each method's step and state;
    models: activations in whole networks; monitor: a Monitor's cost; sweep: engines; training: the whole step."""
    device: Device = "auto"
    """Where to measure. auto: on a CUDA GPU if torch sees one, else on the CPU."""
    threads: int = 1
    """Threads on the CPU."""
    seconds: float = 3.0
    """Time for each case."""
    only: str = ""
    """Measure the cases of kernels, methods, models or training alone whose title holds this, such as 2^20 or CNN, or
    the engines of sweep whose name does."""
    methods: tuple[str, ...] = ()
    """Measure these methods alone, beside vanilla."""
    json: Path | None = None
    """Write the numbers to this file, with machine, versions, n and spread."""

    def run(self) -> int:
        self.check()
        torch.set_num_threads(self.threads)
        print(kernels.describe())
        rows, case = [], ""
        try:
            for row in MEASURES[self.what](self):
                first = next(iter(COLUMNS[type(row)].values()))(row)
                if first != case:
                    print(f"measured: {(case := first)}", flush=True)
                rows.append(row)
        except ModuleNotFoundError as error:
            raise BadUsage(str(error)) from error
        if not rows and self.what in EXAMPLES:
            raise BadUsage(f"no case has {self.only!r} in its title; titles look like {EXAMPLES[self.what]}.")
        for kind in dict.fromkeys(map(type, rows)):
            columns = COLUMNS[kind]
            print_table(tuple(columns), [[cell(row) for cell in columns.values()] for row in rows if type(row) is kind])
        if self.json is not None:
            atomic_write(self.json, json.dumps(self.content(rows), indent=1).encode())
        return DONE

    def check(self) -> None:
        if self.what not in MEASURES:
            raise registry.UnknownName(registry.no_such("benchmark", self.what, MEASURES))
        if self.methods and self.what != "methods":
            raise BadUsage(f"--methods is for supple bench methods; bench {self.what} would pass over it.")
        if self.only and self.what in ("atari", "monitor"):
            raise BadUsage(f"--only chooses among cases; bench {self.what} would pass over it.")
        if self.threads < 1:
            raise BadUsage(f"--threads must be at least 1; got {self.threads}.")
        if self.seconds < 0:
            raise BadUsage(f"--seconds must be at least 0; got {self.seconds}.")
        check_device(self.device)
        if self.json is None:
            return
        if self.json.is_dir():
            raise BadUsage(f"--json takes a file; {self.json} is a folder.")
        try:  # before minutes are spent on what would be in it
            beside, number = open_part(self.json)
            os.close(number)
            beside.unlink()
        except OSError as error:
            way_out = "Name a file in a folder that is there and that you may write to."
            raise BadUsage(f"cannot write --json {self.json}: {error.strerror}. {way_out}") from error

    def content(self, rows: Sequence[Any]) -> dict[str, object]:
        provenance = gather_provenance()
        # How float32 matrix products of a training step round, on both sides of every comparison; bf16 is named.
        matmul = Numerics.choose(torch.device(self.device), "default").precision
        return {
            "benchmark": self.what,
            "device": self.device,
            "gpu": torch.cuda.get_device_name() if self.device == "cuda" else None,
            "threads": self.threads,
            **({"matmul": matmul} if self.what in ("methods", "training") else {}),
            "kernels": kernels.describe(),
            "commit": provenance.commit,
            "versions": provenance.versions,
            "machine": provenance.machine,
            "rows": [asdict(row) for row in rows],
        }


MEASURES: dict[str, Callable[[Bench], Iterator[Any]]] = {
    "atari": lambda ask: bench_atari(torch.device(ask.device), seconds_per_case=ask.seconds),
    "kernels": lambda ask: bench_kernels(torch.device(ask.device), seconds_per_case=ask.seconds, only=ask.only),
    "methods": lambda ask: bench_methods(
        torch.device(ask.device), seconds_per_case=ask.seconds, only=ask.only, names=ask.methods
    ),
    "models": lambda ask: bench_models(torch.device(ask.device), seconds_per_case=ask.seconds, only=ask.only),
    "monitor": lambda ask: bench_monitor(torch.device(ask.device), seconds_per_case=ask.seconds),
    "sweep": lambda ask: bench_sweep(seconds_per_run=max(ask.seconds, SECONDS_PER_RUN), only=ask.only),
    "training": lambda ask: bench_training(torch.device(ask.device), seconds_per_case=ask.seconds, only=ask.only),
}


def spread(middle: float | None, bounds: tuple[float, float] | None, *, digits: int = 2) -> str:
    """A number with its bounds in brackets; nothing if it was not measured."""
    if middle is None or bounds is None:
        return ""
    low, high = bounds
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


COLUMNS: dict[type, dict[str, Callable[[Any], str]]] = {  # of the table of each kind of row
    AtariRow: {
        "run": lambda row: row.case,
        "candidate": lambda row: row.candidate,
        "environment steps a second": lambda row: f"{row.steps_per_second:,.1f}",
        "time over our ReLU run": lambda row: spread(row.ratio, row.ratio_quartiles),
        "turns": lambda row: str(row.turns),
    },
    Row: {
        "tensor": lambda row: row.case,
        "candidate": lambda row: row.candidate,
        "time": lambda row: f"{row.microseconds:.1f} us",
        "over F.relu": lambda row: spread(row.ratio, row.ratio_quartiles),
        "turns": lambda row: str(row.turns),
    },
    MethodRow: {
        "step": lambda row: f"{row.case}, {row.mode}",
        "method": lambda row: row.method,
        "over vanilla": lambda row: spread(row.ratio, row.ratio_quartiles) or row.why_not or "",
        "boundary, in steps": lambda row: "" if row.boundary_steps is None else f"{row.boundary_steps:.1f}",
        "state, in networks": lambda row: "" if row.state is None else f"{row.state:.2f}",
        "turns": lambda row: str(row.turns),
    },
    ModelRow: {
        "step": lambda row: row.case,
        "activation": lambda row: row.candidate,
        "time": lambda row: f"{row.milliseconds:.3f} ms",
        "over ReLU": lambda row: spread(row.ratio, row.ratio_quartiles),
        "turns": lambda row: str(row.turns),
    },
    MonitorRow: {
        "network": lambda row: row.case,
        "step": lambda row: f"{row.milliseconds:.1f} ms",
        "a reading, in steps": lambda row: spread(row.reading_over_step, row.reading_quartiles),
        f"cost every {DEFAULT_EVERY} steps": lambda row: f"{row.cost:.2%}",
        "turns": lambda row: str(row.turns),
    },
    SweepRow: {
        "engine": lambda row: row.engine,
        "workers": lambda row: str(row.workers),
        "sweeps": lambda row: str(row.sweeps),
        "runs": lambda row: str(row.runs),
        "a run": lambda row: f"{spread(row.seconds_per_run, row.seconds_range, digits=1)} s",
        "wall time": lambda row: f"{row.wall_seconds:.1f} s",
        "start": lambda row: f"{row.start_seconds:.1f} s",
        "overhead a run": lambda row: f"{row.overhead_per_run:.2f} s",
        "efficiency": lambda row: spread(row.efficiency, row.efficiency_range),
    },
    TrainingRow: {
        "step": lambda row: row.case,
        "candidate": lambda row: row.candidate,
        "time": lambda row: f"{row.milliseconds:.3f} ms",
        "over our ReLU step": lambda row: spread(row.ratio, row.ratio_quartiles),
        "memory": lambda row: "" if row.megabytes is None else f"{row.megabytes:.1f} MB",
        "turns": lambda row: str(row.turns),
    },
}
