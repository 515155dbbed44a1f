"""Gradients as the last backward left them: their norm, and the share of units that none reaches.

They are read from ``.grad``: measure between backward and ``zero_grad``. What a method or clipping did to them counts.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from supple.metrics.base import Metric
from supple.metrics.observation import Observation
from supple.metrics.weight_norm import joint_norm, row_norms
from supple.units import Layer


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
        weights = (layer.weight for layer in observation.layers.values() if isinstance(layer, Layer))
        masks = [dead_rows(weight.grad) for weight in weights if weight.grad is not None]
        if not masks:
            return {}
        return {"dead_gradient_share": torch.cat([mask.cpu() for mask in masks]).double().mean().item()}


def dead_rows(gradient: Tensor) -> Tensor:
    """Which rows of a weight's gradient are zero throughout, up to values whose square is zero (1e-23 in float32)."""
    return row_norms(gradient) == 0
