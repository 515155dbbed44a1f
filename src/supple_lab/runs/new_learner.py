"""A new learner: the network as the seed of a run draws it, with its optimizer."""

import torch
import torch.nn.functional as F

from supple.default_generator import kept_default_generators
from supple.learner import Learner
from supple_lab.data.base import Splits
from supple_lab.runs.precision import Numerics
from supple_lab.runs.spec import RunSpec
from supple_lab.streams import stream_seed


def new_learner(spec: RunSpec, splits: Splits, numerics: Numerics) -> Learner:
    """The same on every device and whatever the activation."""
    facts = splits.facts
    with kept_default_generators():
        torch.default_generator.manual_seed(stream_seed(spec.seed, "initialisation"))
        model = spec.model.build(spec.method.activation, image_shape=facts.image_shape, num_classes=facts.num_classes)
    model = numerics.place(model)
    return Learner(
        model,
        spec.optimizer.build(model.parameters()),
        example_input=splits.train.batch(torch.arange(2, device=numerics.device))[0],
        loss=F.cross_entropy,
        seed=stream_seed(spec.seed, "method"),
    )
