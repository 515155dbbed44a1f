"""Weight clipping (Elsayed et al. 2024): after each step weights go back into a multiple of their initial range."""

from dataclasses import dataclass

import torch
from torch import Tensor

from supple.learner import Learner
from supple.methods.base import State
from supple.methods.matrices import Matrix, OnMatrices, biases, matrices
from supple.units import in_dim

DEFAULT_SHARE = 0.75  # torch's own start reaches this far into its bound, but for the smallest layers


@dataclass(frozen=True, kw_only=True)
class WeightClipping(OnMatrices):
    """Clamps weights and biases of linear and convolutional layers to +-kappa times their layer's initial bound.

    The bound is 1 / sqrt(fan_in), torch's own, if the initial weights fill it or are 0, else the largest of them, our
    choice; a bias has its weight's. Norms, our choice, and the optimizer's moments stay. The authors' code clamps
    norms, too: 1 becomes .1 at the first step of a ResNet.
    """

    name = "weight_clipping"
    does = "clamps"
    is_elementwise = True
    kappa: float = 2.0  # of the authors' grid 1 to 5
    clip_output: bool = True

    def __post_init__(self) -> None:
        if not self.kappa > 0.0:
            raise ValueError(f"WeightClipping.kappa is a multiple of the initial bound, above 0; got {self.kappa}.")

    def chosen(self, learner: Learner) -> list[Matrix]:
        return matrices(learner, output=self.clip_output)

    def first_record(self, learner: Learner, matrix: Matrix) -> State:
        return {f"bound.{matrix.name}": initial_bound(learner, matrix)}

    @torch.no_grad()
    def after_step(self, learner: Learner, state: State) -> None:
        for matrix in self.chosen(learner):
            if f"bound.{matrix.name}" not in state:  # it was frozen until now
                state |= self.first_record(learner, matrix)
            bound = self.kappa * state[f"bound.{matrix.name}"]
            for parameter in (matrix.weight, *biases(learner, [matrix]).values()):
                parameter.clamp_(-bound, bound)


def initial_bound(learner: Learner, matrix: Matrix) -> Tensor:
    """How far the layer's initial weights reach."""
    initial = learner.initial_of(matrix.weight)
    largest = initial.abs().amax()
    largest = largest.full_tensor() if hasattr(largest, "full_tensor") else largest  # of shards, all of them
    fan_in = initial.numel() / initial.shape[1 - in_dim(matrix.layer)]
    default = torch.full_like(largest, fan_in**-0.5)
    is_default = (largest > DEFAULT_SHARE * default) & (largest <= default)
    return torch.where(is_default | (largest == 0), default, largest)  # what starts at 0 is to learn, too
