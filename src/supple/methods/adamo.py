"""AdamO (Rosseau et al. 2026): Parseval's pull towards isometries, applied to the weights beside Adam's step.

Written from two accounts of the paper; no code of the authors was seen, and their strength is not known.
"""

from dataclasses import dataclass

import torch

from supple.learner import Learner
from supple.methods.base import State, learning_rates, non_negative
from supple.methods.matrices import Matrix, OnMatrices, gram_distance_gradient


@dataclass(frozen=True, kw_only=True)
class AdamO(OnMatrices):
    """W <- optimizer's step - lr * strength * gradient of ||W' W - I||_F^2 at the W before the step.

    W W' takes the place of W' W if a matrix has fewer outputs than inputs. The output layer is included, biases and
    norms are not. The moments never see the pull. Any optimizer will do.
    """

    name = "adamo"
    does = "draws"
    follows = ("after_backward",)
    strength: float = 1e-2  # a guess: the best of 1e-4, 1e-2 and 1e-1 on random-label digits

    def __post_init__(self) -> None:
        non_negative(self.strength, "AdamO.strength is the weight of the pull (lambda)")

    def first_record(self, learner: Learner, matrix: Matrix) -> State:
        return {f"next.{matrix.name}": matrix.weight.detach().clone()}

    @torch.no_grad()
    def after_backward(self, learner: Learner, state: State) -> None:
        for matrix in self.chosen(learner):
            if f"next.{matrix.name}" not in state:  # it was frozen until now
                state |= self.first_record(learner, matrix)
            state[f"next.{matrix.name}"].copy_(matrix.weight)

    @torch.no_grad()
    def after_step(self, learner: Learner, state: State) -> None:
        rates = learning_rates(learner.optimizer)
        for matrix in self.chosen(learner):
            if matrix.weight.grad is not None:
                pull = gram_distance_gradient(matrix.of(state[f"next.{matrix.name}"]), 1.0)
                matrix.weight.sub_(matrix.back(pull) * (rates[id(matrix.weight)] * self.strength))
