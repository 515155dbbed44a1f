"""Runs that take a second, for tests of everything around them."""

from supple.methods.base import Method
from supple.methods.vanilla import Vanilla
from supple_lab.data.digits import Digits
from supple_lab.models.mlp import MLP
from supple_lab.runs.optimizer import Adam, Optimizer
from supple_lab.runs.problem import Supervised
from supple_lab.runs.spec import RunSpec
from supple_lab.scenarios.random_label import RandomLabel


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
