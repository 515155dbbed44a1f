"""Monitor reference: small trainings, healthy and ruined, with what a Monitor read and what became of them.

    python tools/monitor_reference.py OUT.jsonl --jobs 14 --minutes 8   # a line a training; goes on where it stopped
    python tools/monitor_reference.py OUT.jsonl --test                  # the new variants that the rule is tested on

A training is a configuration (network, regime, variant) with a seed: up to NUM_STAGES stages, each with new data. At
the end of each stage it writes what the Monitor read in it and warned of, the same numbers in evaluation mode of the
network and of a fresh one on the stage's data, and the verdict of `supple.plasticity_gap` on the next stage's data. A
training ends with the stage at whose end plasticity is lost; `supple.diagnose` is asked then, on the same data. What
counts as what: docs/results/monitor_reference.md.
"""

import argparse
import itertools
import json
import math
import multiprocessing
import os
import time
import traceback
from collections import Counter
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

import supple
from monitor_trainings import (
    NETWORKS,
    REGIMES,
    Setting,
    Stage,
    damage_,
    make_network,
    make_optimizer,
    make_remedy,
    stage_of,
)
from monitor_variants import TESTED
from supple.unchanged import undisturbed

NUM_STAGES, STAGE_STEPS, READINGS = 8, 180, 3  # readings of training forwards a stage
GAP = {
    "steps": 96,
    "seeds": 4,
    "optimizer": partial(torch.optim.Adam, lr=3e-3, fused=True),
}  # for every training alike, whatever its own learning rate
LEFT_OUT = {("vit", "dead"), ("vit", "saturated")}
WORN_VALUE, WORN_LEVEL = 0.25, 0.5  # beyond their intervals
LOUD = 1000.0  # times the loss, in the first stage, that leaves an optimizer's moments stale
DIGITS = 4  # of each number
TEST_SEED = 101  # the first of the new variants: their data are new, too


@dataclass(frozen=True, kw_only=True)
class Configuration:
    network: str
    regime: str
    variant: int
    is_test: bool = False  # one of the new variants

    @property
    def name(self) -> str:
        return f"{self.network} {self.regime} {self.variant}"

    @property
    def setting(self) -> Setting:
        return (TESTED if self.is_test else REGIMES)[self.regime][self.variant]


def configurations(*, is_test: bool = False) -> list[Configuration]:
    """All of them, so ordered that any first part is balanced over networks and regimes."""
    regimes = TESTED if is_test else REGIMES
    return [
        Configuration(network=network, regime=regime, variant=variant, is_test=is_test)
        for variant, regime, network in itertools.product(range(len(regimes["healthy"])), regimes, NETWORKS)
        if (network, regime) not in LEFT_OUT
    ]


def train(configuration: Configuration, seed: int, *, num_stages: int = NUM_STAGES) -> dict[str, Any]:
    torch.set_num_threads(1)
    began, setting = time.monotonic(), configuration.setting
    make, stage_at = (
        partial(make_network, configuration.network, setting),
        partial(stage_of, configuration.network, setting, seed=seed),
    )
    torch.manual_seed(seed)
    network = make()
    optimizer = make_optimizer(network, setting)
    if (remedy := make_remedy(setting)) is not None:
        supple.attach(network, optimizer, remedy, example_input=stage_at(0).data[0][0], seed=seed)
    monitor = supple.Monitor(network, every=STAGE_STEPS // READINGS)
    line: dict[str, Any] = {**asdict(configuration), "seed": seed, "stages": []}
    for number in range(num_stages):
        stage, after = stage_at(number), stage_at(number + 1)
        if setting.damage and number:
            damage_(network, setting.damage, min(1.0, number / (NUM_STAGES - 2)))  # whole in the last two
        warnings = []
        for loss in itertools.islice(stage.losses(network), STAGE_STEPS):
            optimizer.zero_grad()
            (LOUD * loss if setting.optimizer == "stale" and not number else loss).backward()
            optimizer.step()
            monitor.step()
            if monitor.rows[-1]["step"] == monitor.num_steps:
                found = [alarm for alarms in monitor.alarms.values() for alarm in alarms]
                warnings += [[monitor.num_steps, alarm.level, alarm.layer, alarm.change] for alarm in found]
        gap = supple.plasticity_gap(network, fresh=make, data=after.data, loss=after.loss, **GAP)
        line["stages"].append(
            {
                "loss": loss.item(),
                "accuracy": stage.accuracy(network),
                "training": [row for row in monitor.rows if row["step"] > number * STAGE_STEPS],
                "warnings": warnings,
                "probe": probed(network, stage),
                "fresh": probed(fresh_network(make, seed), stage),
                "gap": {key: getattr(gap, key) for key in ("verdict", "value", "interval", "level", "level_interval")},
            }
        )
        if gap.verdict == "plasticity lost":
            break
    monitor.close()
    inputs, *targets = (torch.cat(parts) for parts in zip(*after.data, strict=True))
    line["found"] = list(
        supple.diagnose(
            network,
            (inputs, tuple(targets)),
            fresh=make,
            loss=lambda output, targets: after.loss(output, *targets),
            optimizer=optimizer,
        ).evidence
    )
    line["units"] = {row.name: row.units.num_units for row in monitor.readings["train"].layers if row.units is not None}
    return {**line, "outcome": outcome(line), "seconds": time.monotonic() - began, "supple": supple.__version__}


def fresh_network(make: partial[nn.Module], seed: int) -> nn.Module:
    with undisturbed():
        torch.manual_seed(10_000 + seed)
        return make()


def probed(network: nn.Module, stage: Stage) -> dict[str, float]:
    """What a Monitor reads of the stage's inputs in evaluation mode."""
    with supple.Monitor(network, probe=torch.cat([batch[0] for batch in stage.data])) as monitor:
        return dict(monitor.rows[0])


def ruined_at(line: dict[str, Any]) -> int | None:
    lost = (number for number, stage in enumerate(line["stages"]) if stage["gap"]["verdict"] == "plasticity lost")
    return next(lost, None)


def outcome(line: dict[str, Any]) -> str:
    """healthy, worn, ruined, too early or undecided, by the page's rules."""
    stage = ruined_at(line)
    if stage is not None:
        return "ruined" if stage else "too early"
    gaps = [stage["gap"] for stage in line["stages"]]
    if any(gap["verdict"] == "not decided" for gap in gaps):
        return "undecided"
    return "worn" if any(map(is_worn, gaps)) else "healthy"


def is_worn(gap: dict[str, Any]) -> bool:
    lows = (gap["interval"][0], WORN_VALUE), (gap["level_interval"][0], WORN_LEVEL)
    return any(low is not None and low > limit for low, limit in lows)


# The file: one line a training.


def read_lines(path: Path) -> list[dict[str, Any]]:
    """What is written; a torn last line is cut off."""
    if not path.exists():
        return []
    whole, newline, torn = path.read_bytes().rpartition(b"\n")
    if torn:
        os.truncate(path, len(whole + newline))
    return [json.loads(line) for line in whole.decode().splitlines()]


def short(part: Any) -> Any:
    """The part with numbers of DIGITS digits, and None for what is not finite, which JSON does not know."""
    if isinstance(part, dict):
        return {key: short(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [short(value) for value in part]
    if isinstance(part, float):
        return float(f"{part:.{DIGITS}g}") if math.isfinite(part) else None
    return part


def key_of(line: dict[str, Any]) -> tuple[str, int]:
    return f"{line['network']} {line['regime']} {line['variant']}", line["seed"]


def run(job: tuple[Configuration, int]) -> dict[str, Any] | None:
    """None of a training that failed, so that others go on."""
    try:
        return train(*job)
    except Exception:
        print(*job, traceback.format_exc(), flush=True)
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seeds", type=int, default=3, help="of each configuration, from 1")
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which no training's end is awaited")
    parser.add_argument("--test", action="store_true", help="the new variants; seeds from 101")
    parser.add_argument("--only", default="", help="configurations whose name holds this")
    options = parser.parse_args()
    done = set(map(key_of, read_lines(options.out)))
    wanted = [c for c in configurations(is_test=options.test) if options.only in c.name]
    first = TEST_SEED if options.test else 1
    seeds = range(first, first + options.seeds)
    jobs = [(c, seed) for seed, c in itertools.product(seeds, wanted) if (c.name, seed) not in done]
    began = time.monotonic()
    with options.out.open("a") as file, multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for number, line in enumerate(pool.imap_unordered(run, jobs), 1):
            if line is None:
                continue
            print(json.dumps(short(line), allow_nan=False), file=file, flush=True)
            spent = time.monotonic() - began
            text = (
                f"{number}/{len(jobs)}",
                *key_of(line),
                line["outcome"],
                f"{line['seconds']:.0f} s, all {spent:.0f} s",
            )
            print(*text, sep="  ", flush=True)
            if spent > 60.0 * options.minutes:
                break
    print(dict(Counter(line["outcome"] for line in read_lines(options.out))))


if __name__ == "__main__":
    main()
