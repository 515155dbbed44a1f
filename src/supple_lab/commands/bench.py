"""supple bench: speed, as ratios measured side by side in one process."""

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro

from supple import kernels
from supple.monitor import DEFAULT_EVERY
from supple_lab import registry
from supple_lab.bench.atari import AtariRow, bench_atari
from supple_lab.bench.growth import TITLE as GROWTH
from supple_lab.bench.growth import GrowthRow, bench_growth
from supple_lab.bench.kernels import Row, bench_graph, bench_kernels
from supple_lab.bench.methods import MethodRow, bench_methods
from supple_lab.bench.monitor import MonitorRow, bench_monitor
from supple_lab.bench.report import NUM_RUNS, ReportRow, bench_report
from supple_lab.bench.sweep import SECONDS_PER_RUN, NotMeasured, SweepRow, bench_sweep
from supple_lab.bench.training import TrainingRow, bench_training
from supple_lab.commands.base import DONE, BadUsage, Command, Device, check_device
from supple_lab.commands.terminal import print_table
from supple_lab.files import atomic_write, open_part
from supple_lab.precision import Numerics
from supple_lab.provenance import gather_provenance

WHAT = ("atari", "kernels", "methods", "monitor", "report", "sweep", "training")


@dataclass(frozen=True, kw_only=True)
class Bench(Command):
    """Measure speed against what people use now: ratios in one process, so that a noisy machine matters less."""

    name = "bench"
    what: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="WHAT")]
    """atari: steps of a DQN run; kernels: the activation as an operator; methods: each method's step and state;
    monitor: a Monitor's cost; report: a large store; sweep: engines; training: the whole step."""
    device: Device = "auto"
    """Where to measure. auto: on a CUDA GPU if torch sees one, else on the CPU."""
    threads: int = 1
    """Threads on the CPU."""
    seconds: float = 3.0
    """Time for each case."""
    only: str = ""
    """Measure the cases of kernels, methods or training alone whose title holds this text, such as 2^20 or CNN."""
    runs: int = NUM_RUNS
    """Finished runs in the store that report is measured on."""
    json: Path | None = None
    """Write the numbers to this file, with machine, versions, n and spread."""

    def run(self) -> int:
        self.check()
        torch.set_num_threads(self.threads)
        print(kernels.describe())
        rows: Sequence[Any] = getattr(self, f"{self.what}_rows")()
        if self.json is not None:
            atomic_write(self.json, json.dumps(self.content(rows), indent=1).encode())
        return DONE

    def check(self) -> None:
        """Refuse what cannot be measured."""
        if self.what not in WHAT:
            raise registry.UnknownName(registry.no_such("benchmark", self.what, WHAT))
        if self.threads < 1:
            raise BadUsage(f"--threads must be at least 1; got {self.threads}.")
        if self.runs < 1:
            raise BadUsage(f"--runs must be at least 1; got {self.runs}.")
        if not 0 <= self.seconds < math.inf:
            raise BadUsage(f"--seconds must be at least 0, and finite; got {self.seconds}.")
        check_device(self.device)
        if self.json is not None:
            check_place(self.json)

    def kernels_rows(self) -> list[Row]:
        """Time the operators: a line a case, a column a candidate, the ratio to F.relu with its quartiles."""
        device = torch.device(self.device)
        rows: list[Row] = []
        for row in bench_kernels(device, seconds_per_case=self.seconds, only=self.only):
            if not rows or rows[-1].case != row.case:
                print(f"measured: {row.case}", flush=True)
            rows.append(row)
        if self.device == "cuda":
            rows += bench_graph(device, seconds=self.seconds)
        if not rows:
            raise BadUsage(f"no case has {self.only!r} in its title; titles look like '2^20, float32, forward'.")
        names = list(dict.fromkeys(row.candidate for row in rows))
        cells = {(row.case, row.candidate): spread(row.ratio, row.ratio_quartiles) for row in rows}
        cells |= {(row.case, "F.relu"): f"{row.microseconds:.1f} us" for row in rows if row.candidate == "F.relu"}
        lines = [
            (case, *(cells.get((case, name), "") for name in names)) for case in dict.fromkeys(row.case for row in rows)
        ]
        print_table(("time over F.relu", *names), lines)
        return rows

    def atari_rows(self) -> list[AtariRow]:
        """Time whole steps of DQN runs."""
        try:
            rows = list(bench_atari(torch.device(self.device), seconds_per_case=self.seconds))
        except ModuleNotFoundError as error:
            raise BadUsage(str(error)) from error
        lines = [
            (
                row.case,
                row.candidate,
                f"{row.steps_per_second:,.1f}",
                spread(row.ratio, row.ratio_quartiles),
                str(row.turns),
            )
            for row in rows
        ]
        print_table(("run", "candidate", "environment steps a second", "time over our ReLU run", "turns"), lines)
        return rows

    def methods_rows(self) -> list[MethodRow]:
        """Time a step of every method over one of plain ReLU."""
        rows = list(bench_methods(torch.device(self.device), seconds_per_case=self.seconds, only=self.only))
        if not rows:
            raise BadUsage(f"no case has {self.only!r} in its title; titles look like 'MLP 3x128, batch 64'.")
        lines = []
        for row in rows:
            ratio = spread(row.ratio, row.ratio_quartiles) or row.why_not or ""
            boundary = "" if row.boundary_steps is None else f"{row.boundary_steps:.1f}"
            state = "" if row.state is None else f"{row.state:.2f}"
            lines.append((row.case, row.method, row.mode, ratio, boundary, state, str(row.turns)))
        print_table(
            ("step", "method", "mode", "over vanilla", "boundary, in steps", "state, in networks", "turns"), lines
        )
        return rows

    def monitor_rows(self) -> list[MonitorRow]:
        """Time steps with and without a reading."""
        rows = list(bench_monitor(torch.device(self.device), seconds_per_case=self.seconds))
        lines = []
        for row in rows:
            reading = spread(row.reading_over_step, row.reading_quartiles)
            lines.append((row.case, f"{row.milliseconds:.1f} ms", reading, f"{row.cost:.2%}", str(row.turns)))
        print_table(("network", "step", "a reading, in steps", f"cost every {DEFAULT_EVERY} steps", "turns"), lines)
        return rows

    def report_rows(self) -> list[ReportRow]:
        """Make a large store, and time listing its runs and reporting them."""
        rows = []
        for row in bench_report(num_runs=self.runs):
            print(f"measured: {row.step}", flush=True)
            rows.append(row)
        print_table(("step", "runs", "time"), [(row.step, f"{row.runs:,}", f"{row.seconds:.2f} s") for row in rows])
        total = sum(row.seconds for row in rows if row.step.startswith("report"))
        print(f"report in all: {total:.2f} s")
        return rows

    def training_rows(self) -> list[TrainingRow | GrowthRow]:
        """Time whole steps, and late stages against early ones."""
        device = torch.device(self.device)
        rows = list(bench_training(device, seconds_per_case=self.seconds, only=self.only))
        growth = [bench_growth(device)] if self.only in GROWTH else []
        if not rows and not growth:
            look = f"titles look like 'MLP 3x2000, batch 64' or '{GROWTH}'"
            raise BadUsage(f"no case has {self.only!r} in its title; {look}.")
        lines = []
        for row in rows:
            memory = "" if row.megabytes is None else f"{row.megabytes:.0f} MB"
            ratio = spread(row.ratio, row.ratio_quartiles)
            lines.append((row.case, row.candidate, f"{row.milliseconds:.3f} ms", ratio, memory, str(row.turns)))
        if rows:
            print_table(("step", "candidate", "time", "over our ReLU step", "memory", "turns"), lines)
        for one in growth:
            gpu = one.gpu_megabytes_gained
            memory = f"{one.megabytes_gained:.1f} MB" + ("" if gpu is None else f", on the GPU {gpu:.1f} MB")
            ratio = spread(one.late_over_early, one.quartiles, digits=3)
            print_table(("stages", "late over early", "memory gained"), [(one.case, ratio, memory)])
        return [*rows, *growth]

    def sweep_rows(self) -> list[SweepRow]:
        """Time whole sweeps, with runs of at least ten seconds: what each engine costs."""
        rows: list[SweepRow] = []
        for row in bench_sweep(seconds_per_run=max(self.seconds, SECONDS_PER_RUN), only=self.only):
            if isinstance(row, NotMeasured):
                print(f"not measured: {row.engine}: {row.reason}")
            else:
                print(f"measured: {row.engine}", flush=True)
                rows.append(row)
        header = ("engine", "workers", "sweeps", "runs", "a run", "wall time", "start", "overhead a run", "efficiency")
        lines = []
        for row in rows:
            counts = (str(row.workers), str(row.sweeps), str(row.runs))
            times = (f"{row.wall_seconds:.1f} s", f"{row.start_seconds:.1f} s", f"{row.overhead_per_run:.2f} s")
            a_run = f"{spread(row.seconds_per_run, row.seconds_range, digits=1)} s"
            lines.append((row.engine, *counts, a_run, *times, spread(row.efficiency, row.efficiency_range)))
        print_table(header, lines)
        return rows

    def content(self, rows: Sequence[Any]) -> dict[str, object]:
        """What the JSON file holds."""
        provenance = gather_provenance()
        # How float32 matrix products of a training step round, on both sides of every comparison; bf16 is named.
        matmul = Numerics.choose(torch.device(self.device), "default").precision
        rounding = {"matmul": matmul} if self.what in ("methods", "training") else {}
        return {
            "benchmark": self.what,
            "device": self.device,
            "gpu": torch.cuda.get_device_name() if self.device == "cuda" else None,
            "threads": self.threads,
            **rounding,
            "kernels": kernels.describe(),
            "commit": provenance.commit,
            "versions": provenance.versions,
            "machine": provenance.machine,
            "rows": [asdict(row) for row in rows],
        }


def check_place(path: Path) -> None:
    """Refuse a file that cannot be written, before minutes are spent on what would be in it."""
    if path.is_dir():
        raise BadUsage(f"--json takes a file; {path} is a folder.")
    try:
        beside, number = open_part(path)
        os.close(number)
        beside.unlink()
    except OSError as error:
        way_out = "Name a file in a folder that is there and that you may write to."
        raise BadUsage(f"cannot write --json {path}: {error.strerror}. {way_out}") from error


def spread(middle: float | None, bounds: tuple[float, float] | None, *, digits: int = 2) -> str:
    """A number with its bounds in brackets; nothing if it was not measured."""
    if middle is None or bounds is None:
        return ""
    low, high = bounds
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
