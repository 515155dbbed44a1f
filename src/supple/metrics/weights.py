"""Metrics of weights and gradients: their norms, the distance from the start, rows without gradient."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from supple.metrics.base import Metric
from supple.metrics.observe import Observation
from supple.units import is_layer, out_dim


@dataclass(frozen=True, kw_only=True)
class WeightNorm(Metric):
    """``weight_norm``: the norm of theta, biases and norms' scales included."""

    name = "weight_norm"

    def measure(self, observation: Observation) -> dict[str, float]:
        return {"weight_norm": joint_norm(observation.parameters.values())}


@dataclass(frozen=True, kw_only=True)
class DistanceFromInit(Metric):
    """``distance_from_init``: the norm of theta - theta_0; it needs the initial parameters (``Learner.initial``)."""

    name = "distance_from_init"

    def measure(self, observation: Observation) -> dict[str, float]:
        if observation.initial is None:
            return {}
        initial = observation.initial
        moved = (p.detach().double() - initial[name].double() for name, p in observation.parameters.items())
        return {"distance_from_init": joint_norm(moved)}


def joint_norm(tensors: Iterable[Tensor]) -> float:
    """The norm of all the tensors laid end to end."""
    norms = [row_norms(tensor.detach()).cpu() for tensor in tensors]
    return torch.cat(norms).norm().item() if norms else 0.0


def row_norms(tensor: Tensor) -> Tensor:
    """The norm of each row, in float64; of a vector, the one norm it has."""
    # In float32 a whole 2000 x 2000 matrix comes out 8e-5 too small on a CPU; row by row it is right to 6e-10, and
    # twelve times as fast as in float64.
    dtype = torch.promote_types(tensor.dtype, torch.float32)
    rows = tensor.flatten(1) if tensor.dim() > 1 else tensor.reshape(1, -1)
    return torch.linalg.vector_norm(rows, dim=1, dtype=dtype).double()


@dataclass(frozen=True, kw_only=True)
class GradientNorm(Metric):
    """``gradient_norm``: the norm of all gradients together."""

    name = "gradient_norm"
    reads_gradients = True

    def measure(self, observation: Observation) -> dict[str, float]:
        gradients = observation.gradients
        return {"gradient_norm": joint_norm(gradients.values())} if gradients else {}


@dataclass(frozen=True, kw_only=True)
class DeadGradientShare(Metric):
    """``dead_gradient_share``: the units of all linear and convolutional layers whose weights get no gradient at all.

    A unit here is one row of a layer's weight, the output layer's rows included. Rows, not single weights: a pixel that
    is always black gives a weight no gradient in the healthiest network.
    """

    name = "dead_gradient"
    reads_gradients = True

    def measure(self, observation: Observation) -> dict[str, float]:
        found = ((at.weight.grad, out_dim(at)) for at in observation.layers.values() if is_layer(at))
        masks = [dead_rows(gradient.movedim(dim, 0)) for gradient, dim in found if gradient is not None]
        if not masks:
            return {}
        return {"dead_gradient_share": torch.cat([mask.cpu() for mask in masks]).double().mean().item()}


def dead_rows(gradient: Tensor) -> Tensor:
    """Which rows of a weight's gradient are zero throughout, up to values whose square is zero (1e-23 in float32)."""
    return row_norms(gradient) == 0
