"""What each method costs: its training step over that of plain ReLU, its boundary of stages in steps, its state."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Literal

import numpy as np
import torch

from supple.methods import Method, Vanilla
from supple_lab import registry
from supple_lab.bench.timing import ratio_to, wait_for
from supple_lab.bench.training import STEPS_A_TURN, Case, Steps, a_turn, begun, endless, timings_of
from supple_lab.data.batches import Batches
from supple_lab.models.cnn import CNN
from supple_lab.models.mlp import MLP
from supple_lab.precision import Numerics
from supple_lab.run.step import EagerSteps, TrainState, choose_steps
from supple_lab.spec import in_stages

CASES = (
    Case("MLP 3x128, batch 64", MLP(width=128), (1, 28, 28), 64),
    Case("CNN-4, batch 64", CNN(), (3, 32, 32), 64),
)
Mode = Literal["eager", "captured"]
NUM_BOUNDARIES = 3  # of which the median counts
WARM_UP = 3  # steps before a boundary, so that there are moments and gradients


@dataclass(frozen=True)
class MethodRow:
    """One method in one case; numbers are None if it cannot be measured so, and ``why_not`` says why."""

    case: str
    method: str
    mode: Mode
    milliseconds: float | None  # of a step
    ratio: float | None  # to vanilla's step in the same mode
    ratio_quartiles: tuple[float, float] | None
    boundary_steps: float | None  # time between two stages of 25 batches, in steps of vanilla; None: does not act there
    state: float | None  # numbers that the method keeps, over the network's parameters
    turns: int
    why_not: str | None = None


def bench_methods(
    device: torch.device, *, seconds_per_case: float, only: str = "", names: Sequence[str] = ()
) -> Iterator[MethodRow]:
    """Time all methods, or those of these names, at their defaults in turns: eager, and on a GPU captured as well."""
    modes: tuple[Mode, ...] = ("eager", "captured") if device.type == "cuda" else ("eager",)
    with Numerics.choose(device, "default").matmuls():
        for case in CASES:
            for mode in modes:
                if only in case.title:
                    yield from bench_case(case, device, mode, seconds=seconds_per_case, names=names)


def methods_at_defaults(names: Sequence[str] = ()) -> dict[str, Method]:
    """Vanilla first, then those of these names, or all; a chain is what it holds."""
    asked = {name: registry.find(Method, name) for name in names} or registry.known(Method)
    known: dict[str, type[Method]] = {"vanilla": Vanilla, **asked}
    found = {name: cls() for name, cls in known.items() if name != "chain" and registry.needed_field(cls) is None}
    if lacking := [name for name in names if name not in found]:
        raise registry.UnknownName(f"methods are measured at their defaults; {', '.join(lacking)} has none.")
    return found


def bench_case(
    case: Case, device: torch.device, mode: Mode, *, seconds: float, names: Sequence[str] = ()
) -> Iterator[MethodRow]:
    methods = {name: in_stages(type(method)) for name, method in methods_at_defaults(names).items()}
    steps: dict[str, Steps] = {}
    states: dict[str, float] = {}
    why_not: dict[str, str] = {}
    for name, method in methods.items():
        try:
            training, splits = begun(case, device, method)
            is_captured, num_examples = mode == "captured", len(splits.train)
            taking = choose_steps(training, num_examples=num_examples) if is_captured else EagerSteps(training)
            steps[name] = partial(next, endless(case, training, splits, taking))
            states[name] = state_of(training)
            a_turn(steps[name], STEPS_A_TURN)
            if is_captured and taking.why_eager is not None:
                why_not[name] = f"not captured: {taking.why_eager}"
        except (ValueError, RuntimeError) as error:  # it cannot be built so, or its step cannot be captured
            why_not[name] = str(error).splitlines()[0]
    measured = {name: work for name, work in steps.items() if name not in why_not}
    timings = timings_of(measured, device, least=STEPS_A_TURN if mode == "captured" else 1, seconds=seconds)
    vanilla = timings["vanilla"]
    for name, method in methods.items():
        if name in why_not:
            yield MethodRow(case.title, name, mode, None, None, None, None, states.get(name), 0, why_not[name])
            continue
        compared = ratio_to(vanilla, timings[name])
        boundary = None
        if mode == "eager" and method.acts_in("end_stage", "begin_stage"):
            boundary = seconds_of_boundary(case, device, method) / float(np.median(vanilla))
        numbers = compared.seconds * 1e3, compared.ratio, compared.quartiles, boundary, states[name], compared.turns
        yield MethodRow(case.title, name, mode, *numbers)


def state_of(training: TrainState) -> float:
    """How much the method keeps, in copies of the network's parameters."""
    kept = sum(tensor.numel() for state in training.plasticity.states for tensor in state.values())
    return kept / sum(parameter.numel() for parameter in training.learner.model.parameters())


def seconds_of_boundary(case: Case, device: torch.device, method: Method) -> float:
    """What a method does between two stages, on a run of its own."""
    training, splits = begun(case, device, method)
    steps = endless(case, training, splits, EagerSteps(training))
    seconds = []
    for stage in range(NUM_BOUNDARIES):
        for _ in range(WARM_UP):
            next(steps)
        wait_for(device)
        start = time.perf_counter()
        training.plasticity.end_stage(Batches(splits.train, case.batch_size, 0, stage, "end"))
        training.plasticity.begin_stage(Batches(splits.train, case.batch_size, 0, stage + 1, "begin"))
        wait_for(device)
        seconds.append(time.perf_counter() - start)
    return median(seconds)
