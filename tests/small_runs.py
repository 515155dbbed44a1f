"""Runs that take a second, for tests of everything around them, and what stops and compares them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supple.methods import DASH, FIRE, Chain, FullReset, L2Init, Method, ReDo, ShrinkPerturb, Vanilla
from supple_lab.data.digits import Digits
from supple_lab.data.text import Sums
from supple_lab.models.gpt import GPT
from supple_lab.models.mlp import MLP
from supple_lab.optimizer import Adam, Optimizer
from supple_lab.run import step
from supple_lab.run.run import execute
from supple_lab.scenarios.base import Scenario
from supple_lab.scenarios.class_incremental import ClassIncremental
from supple_lab.scenarios.continual import ContinualFull, ContinualLimited
from supple_lab.scenarios.five_plus_one import FivePlusOne
from supple_lab.scenarios.incremental_cifar import IncrementalCIFAR
from supple_lab.scenarios.label_permuted import LabelPermuted
from supple_lab.scenarios.noisy_labels import NoisyLabels
from supple_lab.scenarios.online_permuted_input import OnlinePermutedInput
from supple_lab.scenarios.permuted_input import PermutedInput
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.scenarios.stationary import Stationary
from supple_lab.scenarios.text_stream import TextStream
from supple_lab.scenarios.warm_start import WarmStart
from supple_lab.spec import RunSpec, Supervised
from supple_lab.store.store import Store

AT_EVERY_STEP = 0.0
SMALL_LINE = (
    "--scenario.num-stages 3 --scenario.epochs 2 --scenario.num-images 128 --scenario.batch-size 32 "
    "--model.width 16 --model.num-hidden 2 --optimizer.learning-rate 2e-3 --quiet --out"
)  # what makes `supple train` execute small_spec()
SMALL_SCENARIOS: list[Scenario] = [
    RandomLabel(num_stages=3, epochs=2, num_images=128, batch_size=32),
    PermutedInput(num_stages=3, batch_size=256),
    ContinualFull(num_stages=3, epochs=2),
    ContinualLimited(num_stages=3, epochs=2),
    ClassIncremental(num_stages=5, epochs=1),
    WarmStart(warm_epochs=4, epochs=2),
    Stationary(epochs=3, milestones=(1, 2)),
    FivePlusOne(num_stages=3, num_shown=300, hard_classes=3, easy_classes=1),
    LabelPermuted(num_stages=3, batch_size=8, num_images=100),
    OnlinePermutedInput(num_stages=3, batch_size=16, num_images=100),
    NoisyLabels(num_stages=3, epochs=10, noise=(0.5, 0.2, 0.0)),
    IncrementalCIFAR(num_stages=5, epochs=4, num_validation=20),
    TextStream(num_stages=3, num_images=100, num_tested=12, epochs=2, change="package"),
    TextStream(num_stages=3, num_images=100, num_tested=12),
]

# Methods that act every so many optimizer steps; ReDo on more batches than there are between two acts.
PERIODIC: list[Method] = [
    *(cls(every=7) for cls in (ShrinkPerturb, FullReset, FIRE, DASH)),
    ReDo(every=7, threshold=0.8, num_examples=1000),
    Chain(methods=(L2Init(strength=0.1), ReDo(every=7, threshold=0.8, num_examples=1000))),
]


def small_spec(
    method: Method | None = None,
    *,
    seed: int = 0,
    num_stages: int = 3,
    epochs: int = 2,
    num_images: int = 128,
    optimizer: Optimizer | None = None,
) -> RunSpec:
    scenario = RandomLabel(num_stages=num_stages, epochs=epochs, num_images=num_images, batch_size=32)
    spec = small_scenario_spec(scenario, method)
    return replace(spec, optimizer=optimizer or spec.optimizer, seed=seed)


def small_scenario_spec(scenario: Scenario, method: Method | None = None) -> RunSpec:
    return RunSpec(
        problem=Supervised(scenario=scenario, dataset=Digits()),
        model=MLP(width=16, num_hidden=2),
        method=method or Vanilla(),
        optimizer=Adam(learning_rate=2e-3),
        seed=0,
    )


def small_text_spec(method: Method | None = None, *, change: str = "vocabulary", seed: int = 0) -> RunSpec:
    scenario = TextStream(change=change, num_stages=3, num_images=32, num_tested=8, epochs=2)
    return RunSpec(
        problem=Supervised(scenario=scenario, dataset=Sums(window=8)),
        model=GPT(num_layers=2, width=8, num_heads=2),
        method=method or Vanilla(),
        optimizer=Adam(learning_rate=2e-3),
        seed=seed,
    )


def counted_steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with each training step of this process."""
    original, steps = step.training_step, list[int]()
    monkeypatch.setattr(step, "training_step", lambda *arguments: steps.append(1) or original(*arguments))
    return steps


@contextmanager
def stopped(owner: Any, name: str, *, after: int = 0) -> Iterator[None]:
    """While open, a run is stopped as by Ctrl-C when it calls the function once more than so many times."""
    original, left = getattr(owner, name), iter(range(after))

    def limited(*arguments, **options):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, limited)
        with pytest.raises(KeyboardInterrupt):
            yield


def interrupted(root: Path, spec: RunSpec, *, at_step: int, mirror: str | None = None, **options) -> Store:
    """A store whose run stopped after so many steps of this process; by default it wrote a checkpoint at each."""
    store = Store.create(root, mirror=mirror)
    with stopped(step, "training_step", after=at_step):
        execute(spec, store, **{"checkpoint_seconds": AT_EVERY_STEP, **options})
    return store


def logs_of(store: Store, spec: RunSpec) -> list[bytes]:
    """The records of stages and of epochs, as they are on the disk."""
    return [(store.folder(spec).path / name).read_bytes() for name in ("records.jsonl", "epochs.jsonl")]


def unbroken_logs(root: Path, spec: RunSpec) -> list[bytes]:
    """What the run writes if nothing happens to it."""
    store = Store.create(root)
    assert execute(spec, store) == "done"
    return logs_of(store, spec)
