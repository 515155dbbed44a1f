"""NaP, normalise and project (Lyle et al. 2024): norms before the activations, weights kept at their initial length.

Written from the paper; no code of the authors is public.
"""

from dataclasses import dataclass

import torch
from torch import nn

from supple.layers import NormReLU
from supple.learner import Learner
from supple.methods.base import State
from supple.methods.matrices import Matrix, OnMatrices, biases, matrices
from supple.warn import warn


@dataclass(frozen=True, kw_only=True)
class NaP(OnMatrices):
    """Builds the network with NormReLU, and after each step scales every hidden matrix to its initial norm.

    A bias is scaled with its matrix, so that the normalised pre-activations, and the output, stay as they are. The
    output layer has no norm behind it, and stays. Both are our choices, as are norms without scale and offset. Weights
    cannot grow, so their step does not shrink by itself: give the optimizer a learning rate that declines. In a network
    of your own that has norms before its activations it only projects; without norms it warns.
    """

    name = "nap"
    does = "scales"

    def activation(self) -> nn.Module:
        return NormReLU()

    def chosen(self, learner: Learner) -> list[Matrix]:
        return matrices(learner, output=False)

    def check(self, learner: Learner) -> None:
        if not any("norm" in type(module).__name__.lower() for module in learner.model.modules()):
            warn(
                "NaP keeps the norms of weights, which leaves the outputs alone only with a norm before each "
                "activation, and this network has none. Use convert(model, NormReLU()) first."
            )

    def first_record(self, learner: Learner, matrix: Matrix) -> State:
        return {f"norm.{matrix.name}": learner.initial_of(matrix.weight).norm()}

    @torch.no_grad()
    def after_step(self, learner: Learner, state: State) -> None:
        for matrix in self.chosen(learner):
            if f"norm.{matrix.name}" not in state:  # it was frozen until now
                state |= self.first_record(learner, matrix)
            factor = state[f"norm.{matrix.name}"] / matrix.weight.norm()
            factor = torch.where(factor.isfinite() & (factor > 0), factor, torch.ones_like(factor))
            for parameter in (matrix.weight, *biases(learner, [matrix]).values()):
                parameter.mul_(factor.to(parameter.dtype))
