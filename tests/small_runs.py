"""Runs that take a second, for tests of everything around them."""

from supple.methods.base import Method
from supple.methods.vanilla import Vanilla
from supple_lab.data.digits import Digits
from supple_lab.models.mlp import MLP
from supple_lab.optimizer import Adam, Optimizer
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
from supple_lab.scenarios.warm_start import WarmStart
from supple_lab.spec import RunSpec, Supervised

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
    return RunSpec(
        problem=Supervised(scenario=scenario, dataset=Digits()),
        model=MLP(width=16, num_hidden=2),
        method=method or Vanilla(),
        optimizer=optimizer or Adam(learning_rate=2e-3),
        seed=seed,
    )


def small_scenario_spec(scenario: Scenario, method: Method | None = None) -> RunSpec:
    return RunSpec(
        problem=Supervised(scenario=scenario, dataset=Digits()),
        model=MLP(width=16, num_hidden=2),
        method=method or Vanilla(),
        optimizer=Adam(learning_rate=2e-3),
        seed=0,
    )
