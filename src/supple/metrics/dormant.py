"""Dormant ratio (Sokar et al. 2023): the share of hidden units that are silent, measured against their layer's mean.

score_i = E|h_i| / mean_k E|h_k|, over samples and positions, so the scores of a layer have mean 1; a unit is dormant
where its score is at most tau. A layer whose output is zero everywhere is dormant as a whole. h is the activation's
output: for AID with 0 < p < 1, DropReLU, RReLU, CReLU and Fourier it is 0 only where z is, so at tau = 0 the ratio is 0
by construction, and only the sign of z tells (`saturation`, `sign_entropy`). A unit of CReLU and Fourier is scored by
both columns that it owns.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from supple.metrics.base import Metric
from supple.metrics.observation import Observation

ZERO = 1e-8  # what a score may be and still count as 0
EPSILON = 1e-9  # keeps the score of a layer that is zero everywhere at 0 (Sokar et al.'s own code)


@dataclass(frozen=True, kw_only=True)
class DormantRatio(Metric):
    """The share of all hidden units with a score of at most tau: ``dormant_ratio`` at 0, with tau in its name else."""

    name = "dormant"
    taus: tuple[float, ...] = (0.0, 0.025, 0.1)  # 0: the AID paper; 0.025 and 0.1: Sokar et al.

    def __post_init__(self) -> None:
        if any(not tau >= 0.0 for tau in self.taus):
            raise ValueError(f"DormantRatio.taus are thresholds of a score, at least 0; got {self.taus}.")

    def measure(self, observation: Observation) -> dict[str, float]:
        if not observation.sites:
            return {}
        scores = torch.cat([dormant_scores(site.magnitude) for site in observation.sites])
        return {key_of(tau): dormant_mask(scores, tau).double().mean().item() for tau in self.taus}


def dormant_scores(magnitude_U: Tensor) -> Tensor:
    """Each unit's mean |h| over the mean of its layer."""
    return magnitude_U / (magnitude_U.mean() + EPSILON)


def dormant_mask(scores_U: Tensor, tau: float) -> Tensor:
    """Which units are dormant."""
    return scores_U <= max(tau, ZERO)


def key_of(tau: float) -> str:
    """The name of the number."""
    return f"dormant_ratio_{tau:g}" if tau else "dormant_ratio"
