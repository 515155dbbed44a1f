"""Head reset (Nikishin et al. 2022): the last layers start over, the others go on."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn

from supple.learner import Batch, Learner, forget_
from supple.methods.base import Method, State, at_least
from supple.methods.matrices import biases, matrices
from supple.methods.renewal import draw
from supple.units import Layer
from supple.units.surgery import trained_by


@dataclass(frozen=True, kw_only=True)
class HeadReset(Method):
    """Gives the ``layers`` last linear or convolutional layers fresh weights, and the optimizer forgets them.

    Fresh weights and biases are drawn from the layer's initial ones. All else stays, moments included. Last are the
    layers that the model registers last; one of them that cannot be reset is left alone, and no other takes its place.
    """

    name = "head_reset"
    layers: int = 1
    every: int | None = None  # optimizer steps; None: between stages

    def __post_init__(self) -> None:
        at_least(1, self.layers, "HeadReset.layers is how many layers start over")

    def init(self, learner: Learner) -> State:
        if self.layers > (found := len(learner.layers())):
            raise ValueError(
                f"HeadReset.layers is {self.layers}, and this network has {found} linear or convolutional layers."
            )
        served, left = self.reach(learner)
        if not served:
            raise ValueError(f"HeadReset cannot reset the head ({'; '.join(left)}). Use another method, as FullReset.")
        return {}

    def last(self, learner: Learner) -> dict[str, Layer]:
        """The layers that the model registers last, by name."""
        return dict(list(learner.layers().items())[-self.layers :])

    def head(self, learner: Learner) -> dict[str, nn.Parameter]:
        """The parameters that start over, by name."""
        last = set(map(id, self.last(learner).values()))
        chosen = [matrix for matrix in matrices(learner) if id(matrix.layer) in last]
        own = learner.own_parameters()
        return {matrix.name: own[matrix.name] for matrix in chosen} | biases(learner, chosen)

    def reach(self, learner: Learner) -> tuple[list[str], list[str]]:
        head = self.head(learner)
        reset = set(map(id, head.values()))
        left = {name: layer for name, layer in self.last(learner).items() if id(layer.weight) not in reset}
        return list(head), [f"'{name}': {hindrance(learner, name, layer)}" for name, layer in left.items()]

    @torch.no_grad()
    def begin_stage(self, learner: Learner, state: State, data: Iterable[Batch], stage: int) -> None:
        head = self.head(learner)
        for parameter in head.values():
            parameter.copy_(draw(learner, parameter, len(parameter)))
        forget_(learner.optimizer, head.values())


def hindrance(learner: Learner, name: str, layer: Layer) -> str:
    """Why a layer cannot be reset."""
    if not isinstance(layer.weight, nn.Parameter):
        return "a parametrization computes its weight"
    if not layer.weight.requires_grad:
        return "it is frozen"
    if id(layer.weight) not in trained_by(learner.optimizer):
        return "the optimizer does not train it"
    holders = (at for at, module in learner.model.named_modules() if getattr(module, "weight", None) is layer.weight)
    return f"its weight is that of {next(at for at in holders if at != name)}, too"
