"""Kernel cost: what AID takes beside ReLU and Dropout, read from the file of `supple bench kernels` among the runs."""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from supple_lab.report.figure import ClaimRow, Verdict
from supple_lab.report.verdict import Words, not_run
from supple_lab.studies.decide import words_of
from supple_lab.studies.groups import in_each

FILE = "bench-kernels.json"
SMALLEST = 2**16  # values; below, a call takes longer than its work
BOTH_WAYS = ("forward + backward", "CUDA graph")  # in the title of a case: not the forward alone


@dataclass(frozen=True, kw_only=True)
class Excess:
    """How much longer AID takes than ReLU and Dropout together in one case, in times of F.relu."""

    case: str
    middle: float
    low: float
    high: float
    turns: int

    @property
    def verdict(self) -> Verdict:
        """AID at most as slow holds when all of the interval says so, and fails when none of it does."""
        if self.high <= 0.0:
            return "holds"
        return "fails" if self.low > 0.0 else "not decided"

    def row(self, words: Words) -> ClaimRow:
        """The claim in this case alone."""
        chance = 1.0 if self.verdict == "not decided" else 0.0
        return replace(not_run(**words), verdict=self.verdict, n=self.turns, chance=chance)


def aid_costs_what_dropout_costs(folder: Path | None) -> ClaimRow:
    """Does AID take at most as long as a ReLU and a Dropout, in every case of the benchmark in the folder?"""
    words = words_of("aid_costs_what_dropout_costs")
    path = (folder or Path("OUT")) / FILE
    try:
        excesses = excesses_in(json.loads(path.read_bytes())["rows"])
    except FileNotFoundError:
        return replace(not_run(**words), measured=f"not measured; supple bench kernels --json {path} does it")
    except (ValueError, KeyError, TypeError):
        return replace(
            not_run(**words), measured=f"{path} is damaged; supple bench kernels --json {path} writes it anew"
        )
    if not excesses:
        return replace(not_run(**words), measured=f"{path} has no case of 2^16 values or more, forward and backward")
    rows = {excess.case: excess.row(words) for excess in excesses}
    worst = max(excesses, key=lambda excess: excess.middle)
    num_holding = sum(excess.verdict == "holds" for excess in excesses)
    return replace(
        in_each(rows, words),
        measured=f"holds in {num_holding} of {len(excesses)} cases (each?); AID minus ReLU and Dropout in times of "
        f"F.relu: {worst.middle:.2f} at most, in {worst.case}",
        interval=(worst.low, worst.high),
    )


def excesses_in(rows: list[dict[str, Any]]) -> list[Excess]:
    """Every AID of every large case that goes both ways."""
    dropouts = {row["case"]: row for row in rows if row["candidate"] == "F.dropout"}
    return [
        excess_of(row, dropouts[row["case"]])
        for row in rows
        if row["candidate"].startswith("AID") and row["case"] in dropouts and counts(row["case"])
    ]


def excess_of(aid: dict[str, Any], dropout: dict[str, Any]) -> Excess:
    """AID's ratio to F.relu minus 1, for the ReLU that it stands in for, minus Dropout's."""
    (aid_low, aid_high), (dropout_low, dropout_high) = aid["ratio_quartiles"], dropout["ratio_quartiles"]
    return Excess(
        case=f"{aid['case']}, {aid['candidate']}",
        middle=aid["ratio"] - 1.0 - dropout["ratio"],
        low=aid_low - 1.0 - dropout_high,
        high=aid_high - 1.0 - dropout_low,
        turns=aid["turns"],
    )


def counts(case: str) -> bool:
    """Whether the case has enough values and goes both ways, by its title: '2^20, float32, forward + backward'."""
    size = case.replace(",", " ").split()[0]
    base, _, exponent = size.partition("^")
    num_values = int(base) ** int(exponent) if exponent else math.prod(map(int, size.split("x")))
    return num_values >= SMALLEST and any(words in case for words in BOTH_WAYS)
