"""Metrics of weights and gradients: norms, distances from the start and from isometry, rows of small gradients."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeGuard

import torch
from torch import Tensor, nn

from supple.metrics.base import Metric
from supple.metrics.observe import Observation, row_norms
from supple.units import Layer, is_layer, out_dim


@dataclass(frozen=True, kw_only=True)
class WeightNorm(Metric):
    """``weight_norm``: the norm of theta, biases and norms' scales included."""

    name = "weight_norm"

    def measure(self, observation: Observation) -> dict[str, float]:
        return {"weight_norm": joint_norm(observation.parameters.values(), observation.row_norms)}


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


def joint_norm(tensors: Iterable[Tensor], norms_of: Callable[[Tensor], Tensor] = row_norms) -> float:
    """The norm of all the tensors laid end to end."""
    norms = [norms_of(tensor).cpu() for tensor in tensors]
    return torch.cat(norms).norm().item() if norms else 0.0


@dataclass(frozen=True, kw_only=True)
class GradientNorm(Metric):
    """``gradient_norm``: the norm of all gradients together."""

    name = "gradient_norm"
    reads_gradients = True

    def measure(self, observation: Observation) -> dict[str, float]:
        gradients = observation.gradients
        return {"gradient_norm": joint_norm(gradients.values(), observation.row_norms)} if gradients else {}


@dataclass(frozen=True, kw_only=True)
class DeadGradientShare(Metric):
    """``dead_gradient_share``: the units of all linear and convolutional layers whose weights get no gradient at all.

    A unit here is one row of a layer's weight, the output layer's rows included. Rows, not single weights: a pixel that
    is always black gives a weight no gradient in the healthiest network.
    """

    name = "dead_gradient"
    reads_gradients = True

    def measure(self, observation: Observation) -> dict[str, float]:
        masks = [dead_rows(at, observation) for at in observation.layers.values() if is_trained(at)]
        if not masks:
            return {}
        return {"dead_gradient_share": torch.cat([mask.cpu() for mask in masks]).double().mean().item()}


def is_trained(layer: nn.Module) -> TypeGuard[Layer]:
    """Whether it is a linear or convolutional layer with a gradient."""
    return is_layer(layer) and layer.weight.grad is not None


def dead_rows(layer: Layer, observation: Observation) -> Tensor:
    """Which units' gradients are zero throughout, up to values whose square is zero (1e-23 in float32)."""
    gradient, dim = layer.weight.grad, out_dim(layer)
    assert gradient is not None
    return observation.row_norms(gradient if dim == 0 else gradient.transpose(0, dim)) == 0


@dataclass(frozen=True, kw_only=True)
class GramaRatio(Metric):
    """``grama_ratio``: the share of hidden units with a gradient score of at most ``threshold`` (Liu et al. 2025).

    The score is mean |dL/dw| over a unit's incoming weights over its mean in the layer, as in ReGraMa. All units of a
    layer without any gradient are inactive. Activations that no layer is known to feed are left out.
    """

    name = "grama_ratio"
    watched = False
    reads_gradients = True
    threshold: float = 0.01

    def __post_init__(self) -> None:
        if self.threshold < 0.0:
            raise ValueError(f"GramaRatio.threshold is a score, at least 0; got {self.threshold}.")

    def measure(self, observation: Observation) -> dict[str, float]:
        names = dict.fromkeys(site.layer for site in observation.sites if site.layer is not None)
        layers = [layer for layer in map(observation.layers.get, names) if layer is not None and is_layer(layer)]
        found = [(at.weight.grad, out_dim(at)) for at in layers if at.weight.grad is not None]
        scores = [gradient_scores(gradient.movedim(dim, 0)) for gradient, dim in found]
        if not scores:
            return {}
        all_scores = torch.cat(scores)
        share = (all_scores <= self.threshold).double().mean().item() if all_scores.isfinite().all() else math.nan
        return {"grama_ratio": share}


def gradient_scores(gradient: Tensor) -> Tensor:
    """Each row's mean |entry| over the mean of all rows, in float64; 0 if all entries are 0."""
    size_U = gradient.double().abs().flatten(1).mean(1).cpu()
    return size_U / size_U.mean() if size_U.any() else size_U


@dataclass(frozen=True, kw_only=True)
class DfI(Metric):
    """``dfi``: DfI, deviation from isometry (Han et al. 2026), the sum of ||W'W - I||_F^2 over layers with matrices.

    A convolution is the matrix of its rows (outputs, inputs * kernel), one for each group. A matrix of more columns
    than rows deviates by their difference at least.
    """

    name = "dfi"
    watched = False

    def measure(self, observation: Observation) -> dict[str, float]:
        layers = [layer for layer in observation.layers.values() if is_layer(layer)]
        return {"dfi": sum(dfi(rows) for layer in layers for rows in matrices(layer))} if layers else {}


def matrices(layer: Layer) -> Tensor:
    """The layer's weight by group, output, and input with kernel position."""
    rows = layer.weight.detach().movedim(out_dim(layer), 0)
    num_groups = getattr(layer, "groups", 1)
    return rows.reshape(num_groups, len(rows) // num_groups, -1)


def dfi(weight_OI: Tensor) -> float:
    """Return ||W'W - I||_F^2 of a matrix of (outputs, inputs)."""
    num_outputs, num_inputs = weight_OI.shape
    weight = weight_OI.detach().double()
    gram = weight @ weight.T if num_outputs < num_inputs else weight.T @ weight
    # W'W has the eigenvalues of WW' and, if it is the larger one, as many zeros as it is larger.
    missing = num_inputs - len(gram)
    return ((gram - torch.eye(len(gram), dtype=gram.dtype, device=gram.device)) ** 2).sum().item() + missing
