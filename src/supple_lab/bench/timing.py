"""Timing on a noisy machine: candidates take turns in one process, and medians are compared."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

Work = Callable[[], object]
# Long against the clock's resolution, short against a disturbance by other processes; on a GPU long enough that the
# launch of the first call is lost among those that follow.
SECONDS_PER_TURN = {"cpu": 2e-3, "cuda": 2e-2}
MIN_TURNS = 5


@dataclass(frozen=True)
class Timing:
    """Seconds per call of one candidate, one value a turn."""

    seconds: np.ndarray

    @property
    def median(self) -> float:
        return float(np.median(self.seconds))


def take_turns(candidates: Mapping[str, Work], *, device: torch.device, seconds: float) -> dict[str, Timing]:
    """Time all candidates in turns for about that many seconds; each has been called before, so nothing is cold."""
    calls = {name: calls_per_turn(work, device) for name, work in candidates.items()}
    turns: dict[str, list[float]] = {name: [] for name in candidates}
    end = time.perf_counter() + seconds
    order = np.random.default_rng(0)  # nobody always runs after the same neighbour, with its caches
    while time.perf_counter() < end or min(map(len, turns.values())) < MIN_TURNS:
        for name in order.permutation(list(candidates)):
            turns[name].append(seconds_of(candidates[name], calls[name], device) / calls[name])
    return {name: Timing(np.array(values)) for name, values in turns.items()}


def calls_per_turn(work: Work, device: torch.device) -> int:
    """How many calls fill a turn, after a few to warm up."""
    for _ in range(3):
        once = seconds_of(work, 1, device)
    return max(1, round(SECONDS_PER_TURN[device.type] / once))


def seconds_of(work: Work, calls: int, device: torch.device) -> float:
    """Wall-clock time of the calls, with the device idle before and after."""
    wait_for(device)
    start = time.perf_counter()
    for _ in range(calls):
        work()
    wait_for(device)
    return time.perf_counter() - start


def wait_for(device: torch.device) -> None:
    """Let the device finish what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def ratio_quartiles(timing: Timing, base: Timing) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile of the turn-by-turn ratio to the base."""
    low, middle, high = np.quantile(timing.seconds / base.seconds, (0.25, 0.5, 0.75))
    return float(low), float(middle), float(high)
