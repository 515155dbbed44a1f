"""Spectral regularisation (Lewandowski et al. 2025): a penalty for largest singular values away from 1."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from supple.activations import is_activation
from supple.learner import Learner
from supple.methods.base import State, non_negative
from supple.methods.matrices import Matrix, OnMatrices, with_gradients

FIRST_ITERATIONS = 15  # from a random vector; then one a step, as in the paper
TINY = 1e-12


@dataclass(frozen=True, kw_only=True)
class Spectral(OnMatrices):
    """Adds the gradient of strength * [(sigma^2 - 1)^2 + ||b||^2], sigma the largest singular value of each matrix.

    The output layer is included, our choice. Scales of norms are drawn to 1 by (g - 1)^2, and their shifts count as
    biases. sigma comes from one step of power iteration for each training step, so it lags a little.
    """

    name = "spectral"
    does = "penalises"
    strength: float = 1e-3  # of the authors' grid 1e-2, 1e-3, 1e-4

    def __post_init__(self) -> None:
        non_negative(self.strength, "Spectral.strength is the weight of the penalty (lambda)")

    def first_record(self, learner: Learner, matrix: Matrix) -> State:
        """The right singular vectors of the weight's largest singular values, nearly."""
        W_GOI = matrix.of(matrix.weight.detach())
        shape = (W_GOI.shape[0], W_GOI.shape[2])
        v_GI = torch.randn(shape, generator=learner.generator, device=W_GOI.device).to(W_GOI.dtype)
        for _ in range(FIRST_ITERATIONS):
            _, v_GI = power_step(W_GOI, v_GI)
        return {f"right.{matrix.name}": v_GI, f"next.right.{matrix.name}": v_GI.clone()}

    @torch.no_grad()
    def after_backward(self, learner: Learner, state: State) -> None:
        for matrix, gradient in with_gradients(self.chosen(learner)):
            if f"right.{matrix.name}" not in state:  # it was frozen until now
                state |= self.first_record(learner, matrix)
            W_GOI = matrix.of(matrix.weight)
            u_GO, v_GI = power_step(W_GOI, state[f"right.{matrix.name}"])
            state[f"next.right.{matrix.name}"].copy_(v_GI)
            sigma_G = torch.einsum("go,goi,gi->g", u_GO, W_GOI, v_GI)
            slope_G = 4.0 * self.strength * (sigma_G**2 - 1.0) * sigma_G
            gradient.add_(matrix.back(torch.einsum("g,go,gi->goi", slope_G, u_GO, v_GI)))
        for name, parameter, gradient in zip(*learner.trained(), strict=True):
            holder = learner.model.get_submodule(name.rpartition(".")[0])
            if parameter.dim() == 1 and not is_activation(holder):  # an activation's slopes are not penalised
                gradient.add_(parameter - is_scale(learner.model, name), alpha=2.0 * self.strength)

    @torch.no_grad()
    def after_step(self, learner: Learner, state: State) -> None:
        for matrix, _ in with_gradients(self.chosen(learner)):  # a step that is skipped leaves no trace
            state[f"right.{matrix.name}"].copy_(state[f"next.right.{matrix.name}"])


def power_step(W_GOI: Tensor, v_GI: Tensor) -> tuple[Tensor, Tensor]:
    """One step of power iteration: left and right vectors, of length 1. If the matrix is 0, 0 and the old right one."""
    u_GO = nn.functional.normalize(torch.einsum("goi,gi->go", W_GOI, v_GI), dim=1, eps=TINY)
    next_GI = nn.functional.normalize(torch.einsum("goi,go->gi", W_GOI, u_GO), dim=1, eps=TINY)
    return u_GO, torch.where(next_GI.any(dim=1, keepdim=True), next_GI, v_GI)  # 0 would stay 0 for ever


def is_scale(model: nn.Module, name: str) -> float:
    """1 for the scale of a norm, which is drawn to 1; 0 for all other vectors."""
    path, _, leaf = name.rpartition(".")
    return float(leaf == "weight" and "norm" in type(model.get_submodule(path)).__name__.lower())
