"""Saturated share: units whose pre-activation never changes sign on the probe, dead or linear as the case may be.

It asks the same of every activation, where the dormant ratio is 0 by construction for the leaky ones.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from supple.metrics.base import Metric
from supple.metrics.observation import Observation


@dataclass(frozen=True, kw_only=True)
class SaturatedShare(Metric):
    """The share of all hidden units with q in {0, 1}, q being how often z is above zero."""

    name = "saturation"

    def measure(self, observation: Observation) -> dict[str, float]:
        if not observation.sites:
            return {}
        masks = torch.cat([saturated_mask(site.positive_share) for site in observation.sites])
        return {"saturated_share": masks.double().mean().item()}


def saturated_mask(q_U: Tensor) -> Tensor:
    """Which units have z above zero always or never."""
    return (q_U == 0) | (q_U == 1)
