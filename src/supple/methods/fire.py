"""FIRE (Han et al. 2026): before a stage each weight matrix becomes nearly the closest isometry."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from supple.learner import Batch, Learner, forget_
from supple.methods.base import State, at_least
from supple.methods.matrices import Matrix, OnMatrices, matrices
from supple.units import out_dim


@dataclass(frozen=True, kw_only=True)
class FIRE(OnMatrices):
    """Orthogonalises every matrix, the output layer's too, by ``iterations`` cubic Newton-Schulz steps.

    X = M / ||M||_F; X <- 1.5 X - 0.5 X X' X; W <- sqrt(outputs / inputs) X. In a convolution each kernel position is
    orthogonalised by itself and divided by their number. Biases, norms and statistics stay. Ten steps do not bring
    small singular values to 1: of the matrix's norm, .05 becomes .9995, .01 .53, .001 .06. A slice of zeros stays.

    The authors' code makes a new optimizer for each stage; ``clear_moments`` has the one that there is forget all, our
    choice. ``only`` names parts of the weights' names; empty: all of them.
    """

    name = "fire"
    does = "orthogonalises"
    others = "only= does not name it"
    iterations: int = 10  # the authors'
    clear_moments: bool = True
    only: tuple[str, ...] = ()
    every: int | None = None  # optimizer steps; None: between stages

    def __post_init__(self) -> None:
        at_least(1, self.iterations, "FIRE.iterations is a number of Newton-Schulz steps")

    def check(self, learner: Learner) -> None:
        if self.only and not self.chosen(learner):
            raise ValueError(f"FIRE.only names no trained matrix of this network; got {self.only}.")

    def chosen(self, learner: Learner) -> list[Matrix]:
        found = matrices(learner)
        return [m for m in found if any(part in m.name for part in self.only)] if self.only else found

    @torch.no_grad()
    def begin_stage(self, learner: Learner, state: State, data: Iterable[Batch], stage: int) -> None:
        for matrix in self.chosen(learner):
            matrix.weight.copy_(self.isometry(matrix))
        if self.clear_moments:
            forget_(learner.optimizer, learner.own_parameters().values())

    def isometry(self, matrix: Matrix) -> Tensor:
        """The weight with every kernel position of every group made nearly orthogonal."""
        weight = matrix.weight.movedim(out_dim(matrix.layer), 0)
        num_groups, num_inputs = getattr(matrix.layer, "groups", 1), weight.shape[1]
        slices_GOIK = weight.reshape(num_groups, -1, num_inputs, math.prod(weight.shape[2:]))
        slices = slices_GOIK.movedim(3, 1)  # group, kernel position, output, input
        num_positions, num_outputs = slices.shape[1:3]
        X = nearly_orthogonal(slices, self.iterations) * (math.sqrt(num_outputs / num_inputs) / num_positions)
        return matrix.back(X.movedim(1, 3))


def nearly_orthogonal(M: Tensor, num_iterations: int) -> Tensor:
    """Each matrix of a batch after so many cubic steps towards its polar factor."""
    wide = M.float() if M.dtype in (torch.float16, torch.bfloat16) else M
    norm = torch.linalg.matrix_norm(wide, keepdim=True)
    X = wide / torch.where(norm > 0, norm, 1.0)  # zeros stay zeros
    is_wide = X.shape[-1] > X.shape[-2]
    X = X.mT if is_wide else X
    for _ in range(num_iterations):
        X = 1.5 * X - 0.5 * X @ (X.mT @ X)
    return (X.mT if is_wide else X).to(M.dtype)
