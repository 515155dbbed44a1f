"""A new learner: the network as the seed of a run draws it, with its optimizer."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.learner import Learner
from supple.random import kept_default_generators
from supple_lab.data.base import Splits
from supple_lab.runs.precision import Numerics
from supple_lab.runs.spec import RunSpec
from supple_lab.streams import stream_seed


def new_learner(spec: RunSpec, splits: Splits, numerics: Numerics) -> Learner:
    """For a supervised run."""
    facts = splits.facts
    model = new_network(spec, numerics, image_shape=facts.image_shape, num_classes=facts.num_classes)
    example = splits.train.batch(torch.arange(2, device=numerics.device))[0]
    return learner_of(spec, model, example_input=example, loss=F.cross_entropy)


def new_network(spec: RunSpec, numerics: Numerics, *, image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """The same on every device and whatever the activation."""
    with kept_default_generators():
        torch.default_generator.manual_seed(stream_seed(spec.seed, "initialisation"))
        model = spec.model.build(spec.method.activation, image_shape=image_shape, num_classes=num_classes)
    return numerics.place(model)


def learner_of(
    spec: RunSpec, model: nn.Module, *, example_input: Tensor, loss: Callable[[Tensor, Tensor], Tensor]
) -> Learner:
    """The network in training, with the optimizer and the method's stream that the run says."""
    optimizer, seed = spec.optimizer.build(model.parameters()), stream_seed(spec.seed, "method")
    learner = Learner(model, optimizer, example_input=example_input, loss=loss, seed=seed)
    learner.patience, learner.is_advised = None, False  # the run's loop calls every hook, as the spec says
    return learner
