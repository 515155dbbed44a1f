"""supple bench: speed, as ratios measured side by side in one process."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro

from supple import kernels
from supple_lab import lookup
from supple_lab.atomic_write import atomic_write
from supple_lab.bench.kernels import Row, as_json, bench_graph, bench_kernels
from supple_lab.commands.base import DONE, BadUsage, Command
from supple_lab.commands.screen import print_table
from supple_lab.report.provenance import gather_provenance

WHAT = ("kernels",)


@dataclass(frozen=True, kw_only=True)
class Bench(Command):
    """Measure speed against what people use now: ratios in one process, so that a noisy machine matters less."""

    what: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="WHAT")]
    """kernels: the activation as an operator."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where to measure."""
    threads: int = 1
    """Threads on the CPU."""
    seconds: float = 3.0
    """Time for each case."""
    json: Path | None = None
    """Write the numbers to this file, with machine, versions, n and spread."""

    def obey(self) -> int:
        if self.what not in WHAT:
            raise lookup.UnknownName(lookup.no_such("benchmark", self.what, WHAT))
        if self.device == "cuda" and not torch.cuda.is_available():
            raise BadUsage("--device cuda needs a CUDA GPU, and torch sees none. Use --device cpu.")
        torch.set_num_threads(self.threads)
        print(kernels.describe())
        rows = self.measure()
        print_rows(rows)
        if self.json is not None:
            atomic_write(self.json, json.dumps(self.content(rows), indent=1).encode())
        return DONE

    def measure(self) -> list[Row]:
        """Time every case, telling of each as it is done."""
        device = torch.device(self.device)
        rows: list[Row] = []
        for row in bench_kernels(device, seconds_per_case=self.seconds):
            if not rows or rows[-1].case != row.case:
                print(f"measured: {row.case}", flush=True)
            rows.append(row)
        return rows + (list(bench_graph(device, seconds=self.seconds)) if self.device == "cuda" else [])

    def content(self, rows: list[Row]) -> dict[str, object]:
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
            "rows": as_json(rows),
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
