"""Timing on a noisy machine: candidates take turns in one process, and medians are compared."""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch

Work = Callable[[], object]
# Long against the clock's resolution, short against a disturbance by other processes; on a GPU long enough that the
# launch of the first call is lost among those that follow.
SECONDS_PER_TURN = {"cpu": 2e-3, "cuda": 2e-2}
MIN_TURNS = 5


class Compared(NamedTuple):
    """A candidate's time against that of another, turn by turn."""

    seconds: float  # per call, the median
    ratio: float  # the median
    quartiles: tuple[float, float]  # of the ratio
    turns: int


def compare(candidates: Mapping[str, Work], *, base: str, device: torch.device, seconds: float) -> dict[str, Compared]:
    """Time all candidates in turns, against the one named base."""
    turns = take_turns(candidates, device=device, seconds=seconds)
    return {name: ratio_to(turns[base], own) for name, own in turns.items()}


def ratio_to(base: np.ndarray, own: np.ndarray) -> Compared:
    """Both: seconds per call, one value a turn."""
    low, middle, high = np.quantile(own / base, (0.25, 0.5, 0.75)).tolist()
    return Compared(float(np.median(own)), middle, (low, high), len(own))


def take_turns(candidates: Mapping[str, Work], *, device: torch.device, seconds: float) -> dict[str, np.ndarray]:
    """Seconds per call of each, a value a turn, in about that many seconds; each is called before: nothing is cold."""
    calls = {name: calls_per_turn(work, device) for name, work in candidates.items()}
    turns: dict[str, list[float]] = {name: [] for name in candidates}
    end = time.perf_counter() + seconds
    order = np.random.default_rng(0)  # no candidate always runs after the same neighbour, with its caches
    while time.perf_counter() < end or min(map(len, turns.values())) < MIN_TURNS:
        for name in order.permutation(list(candidates)):
            turns[name].append(seconds_of(candidates[name], calls[name], device) / calls[name])
    return {name: np.array(values) for name, values in turns.items()}


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
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def captured(work: Work) -> Callable[[], None]:
    """The replay of the work as one CUDA graph, called on a stream of its own before, as torch's documentation asks."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()

    def replay(held: Work = work) -> None:  # with the work go the tensors that the graph reads and writes
        graph.replay()

    return replay
