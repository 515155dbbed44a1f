"""Networks in training whose steps take a moment, for tests of captured steps."""

import torch
from torch import Tensor

from supple.attach import Plasticity
from supple.methods import Method
from supple_lab.data.base import Examples
from supple_lab.precision import Numerics, Precision
from supple_lab.run.network import new_learner
from supple_lab.run.step import TrainState
from supple_lab.spec import RunSpec, Supervised
from supple_lab.store.store import Store


def training_of(
    spec: RunSpec, device: str = "cuda", *, precision: Precision = "fp32", method: Method | None = None
) -> tuple[TrainState, Examples]:
    """The spec's network in training, at its start, with its method or another one, and all examples of its dataset."""
    assert isinstance(spec.problem, Supervised)
    numerics = Numerics(torch.device(device), precision)
    splits = spec.problem.dataset.load(numerics.device)
    learner = new_learner(spec, splits, numerics)
    learner.model.train()
    masks = torch.Generator(device).manual_seed(1)
    sums = torch.zeros(2, dtype=torch.float64, device=device)
    plasticity = Plasticity(learner, (method or spec.method,), clip_norm=0.5)
    return TrainState(plasticity, numerics, masks, sums), splits.train


def weights(training: TrainState) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in training.learner.model.parameters()])


def assert_captured(store: Store, *specs: RunSpec) -> None:
    """A step that is not captured draws other masks: where one is not, equal numbers prove nothing."""
    for spec in specs:
        assert "not_captured" not in store.folder(spec).status(), store.folder(spec).status()["not_captured"]
