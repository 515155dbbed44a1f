"""Parseval regularisation (Chung et al. 2024): a penalty for hidden weight matrices whose rows are not orthogonal."""

from dataclasses import dataclass

import torch

from supple.learner import Learner
from supple.methods.base import State, non_negative
from supple.methods.matrices import Matrix, OnMatrices, gram_distance_gradient, matrices, with_gradients

WIDTH = 64  # at which the authors' strength is meant


@dataclass(frozen=True, kw_only=True)
class Parseval(OnMatrices):
    """Adds the gradient of strength * (64 / outputs)^2 * ||W W' - target I||_F^2 for every hidden matrix.

    If a matrix has more outputs than inputs, W' W takes the place of W W', whose rank would leave a floor: our choice,
    as is the number of outputs as the width. Output layer, biases and norms are left alone. ``target`` is the squared
    gain of the initialisation; 2 suits ReLU's. The authors' forms on normalised rows, blocks and with a scale a unit
    are not here.
    """

    name = "parseval"
    does = "draws"
    strength: float = 1e-3  # the authors'
    target: float = 2.0

    def __post_init__(self) -> None:
        non_negative(self.strength, "Parseval.strength is the weight of the penalty (lambda)")
        non_negative(self.target, "Parseval.target is the squared length that rows are drawn to")

    def chosen(self, learner: Learner) -> list[Matrix]:
        return matrices(learner, output=False)

    @torch.no_grad()
    def after_backward(self, learner: Learner, state: State) -> None:
        for matrix, gradient in with_gradients(self.chosen(learner)):
            W_GOI = matrix.of(matrix.weight)
            strength = self.strength * (WIDTH / W_GOI.shape[1]) ** 2
            gradient.add_(matrix.back(gram_distance_gradient(W_GOI, self.target)), alpha=strength)
