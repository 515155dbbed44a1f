"""Average unit sign entropy: how undecided the sign of a unit's pre-activation is, from 0 (saturated) to 1 (balanced).

q is how often z is above zero, over samples and positions; H(q) = -q log2 q - (1-q) log2(1-q), averaged over all hidden
units alike. The paper prints E[sgn h], which is a mean and no entropy, and would be high for saturated units while the
paper reads high as healthy; |2q - 1|, its absolute value, is given beside it as ``sign_bias``.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from supple.metrics.base import Metric
from supple.metrics.observation import Observation


@dataclass(frozen=True, kw_only=True)
class SignEntropy(Metric):
    """``sign_entropy``, the mean of H(q), and ``sign_bias``, the mean of |2q - 1|, over all hidden units."""

    name = "sign_entropy"

    def measure(self, observation: Observation) -> dict[str, float]:
        if not observation.sites:
            return {}
        q = torch.cat([site.positive_share for site in observation.sites])
        return {"sign_entropy": binary_entropy(q).mean().item(), "sign_bias": (2 * q - 1).abs().mean().item()}


def binary_entropy(q: Tensor) -> Tensor:
    """The entropy, in bits, of a coin that falls on one side with probability q; 0 log 0 is 0."""
    return -(torch.xlogy(q, q) + torch.xlogy(1 - q, 1 - q)) / math.log(2)
