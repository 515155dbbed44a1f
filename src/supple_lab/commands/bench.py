"""supple bench: speed, as ratios measured side by side in one process."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro

from supple import kernels
from supple.monitor import DEFAULT_EVERY
from supple_lab import lookup
from supple_lab.atomic_write import atomic_write
from supple_lab.bench.growth import GrowthRow, bench_growth
from supple_lab.bench.kernels import Row, bench_graph, bench_kernels
from supple_lab.bench.monitor import MonitorRow, bench_monitor
from supple_lab.bench.training import TrainingRow, bench_training
from supple_lab.commands.base import DONE, BadUsage, Command
from supple_lab.commands.screen import print_table
from supple_lab.provenance import gather_provenance

WHAT = ("kernels", "monitor", "training")


@dataclass(frozen=True, kw_only=True)
class Bench(Command):
    """Measure speed against what people use now: ratios in one process, so that a noisy machine matters less."""

    what: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="WHAT")]
    """kernels: the activation as an operator; monitor: what a Monitor costs; training: the whole step."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where to measure."""
    threads: int = 1
    """Threads on the CPU."""
    seconds: float = 3.0
    """Time for each case."""
    only: str = ""
    """Measure the cases of kernels or training alone whose title holds this text, such as 2^20 or CNN."""
    json: Path | None = None
    """Write the numbers to this file, with machine, versions, n and spread."""

    def obey(self) -> int:
        self.check()
        torch.set_num_threads(self.threads)
        print(kernels.describe())
        benches: dict[str, Callable[[], Sequence[Any]]] = {
            "kernels": self.kernel_rows,
            "monitor": self.monitor_rows,
            "training": self.training_rows,
        }
        rows = benches[self.what]()
        if self.json is not None:
            atomic_write(self.json, json.dumps(self.content(rows), indent=1).encode())
        return DONE

    def check(self) -> None:
        """Refuse what cannot be measured."""
        if self.what not in WHAT:
            raise lookup.UnknownName(lookup.no_such("benchmark", self.what, WHAT))
        if self.threads < 1:
            raise BadUsage(f"--threads must be at least 1; got {self.threads}.")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise BadUsage("--device cuda needs a CUDA GPU, and torch sees none. Use --device cpu.")

    def kernel_rows(self) -> list[Row]:
        """Time the operators, telling of each case as it is done, and show the table."""
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
        print_rows(rows)
        return rows

    def monitor_rows(self) -> list[MonitorRow]:
        """Time steps with and without a reading, and show the table."""
        rows = list(bench_monitor(torch.device(self.device), seconds_per_case=self.seconds))
        header = ("network", "step", "a reading, in steps", f"cost every {DEFAULT_EVERY} steps", "turns")
        print_table(header, [show_monitor(row) for row in rows])
        return rows

    def training_rows(self) -> list[TrainingRow | GrowthRow]:
        """Time whole steps, and late stages against early ones, and show both."""
        device = torch.device(self.device)
        rows = list(bench_training(device, seconds_per_case=self.seconds, only=self.only))
        if not rows:
            raise BadUsage(f"no case has {self.only!r} in its title; titles look like 'MLP 3x2000, batch 64'.")
        header = ("step", "candidate", "time", "over our ReLU step", "turns")
        print_table(header, [show_training(row) for row in rows])
        growth = bench_growth(device)
        print_table(("growth", "late over early stages", "memory gained"), [show_growth(growth)])
        return [*rows, growth]

    def content(self, rows: Sequence[Any]) -> dict[str, object]:
        """What the JSON file holds."""
        provenance = gather_provenance()
        return {
            "benchmark": self.what,
            "device": self.device,
            "gpu": torch.cuda.get_device_name() if self.device == "cuda" else None,
            "threads": self.threads,
            "kernels": kernels.describe(),
            "commit": provenance.commit,
            "versions": provenance.versions,
            "machine": provenance.machine,
            "rows": [asdict(row) for row in rows],
        }


def print_rows(rows: list[Row]) -> None:
    """One line per case, one column per candidate: the ratio to F.relu with its quartiles."""
    names = list(dict.fromkeys(row.candidate for row in rows))
    by_case: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_case.setdefault(row.case, {})[row.candidate] = row
    lines = [(case, *(show(found.get(name)) for name in names)) for case, found in by_case.items()]
    print_table(("time over F.relu", *names), lines)


def show(row: Row | None) -> str:
    """A ratio with its quartiles; F.relu itself as time."""
    if row is None:
        return ""
    if row.candidate == "F.relu":
        return f"{row.microseconds:.1f} us"
    low, high = row.ratio_quartiles
    return f"{row.ratio:.2f} [{low:.2f}, {high:.2f}]"


def show_monitor(row: MonitorRow) -> tuple[str, ...]:
    """One case as text."""
    low, high = row.reading_quartiles
    reading = f"{row.reading_over_step:.2f} [{low:.2f}, {high:.2f}]"
    return row.case, f"{row.milliseconds:.1f} ms", reading, f"{row.cost:.2%}", str(row.turns)


def show_training(row: TrainingRow) -> tuple[str, ...]:
    """One candidate of a case as text."""
    low, high = row.ratio_quartiles
    return (
        row.case,
        row.candidate,
        f"{row.milliseconds:.2f} ms",
        f"{row.ratio:.2f} [{low:.2f}, {high:.2f}]",
        str(row.turns),
    )


def show_growth(row: GrowthRow) -> tuple[str, ...]:
    """The comparison as text."""
    low, high = row.quartiles
    return row.case, f"{row.late_over_early:.3f} [{low:.3f}, {high:.3f}]", f"{row.megabytes_gained:.1f} MB"
