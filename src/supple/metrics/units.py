"""Metrics of units: dormant ones (Sokar et al. 2023), saturated and active ones, and the entropy of their signs."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from supple.metrics.base import Metric
from supple.metrics.observe import Observation
from supple.metrics.sites import Site

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
        keys = {tau: f"dormant_ratio_{tau:g}" if tau else "dormant_ratio" for tau in self.taus}
        shares = {key: dormant_mask(scores, tau).double().mean().item() for tau, key in keys.items()}
        return if_finite(shares, observation.sites)


def if_finite(numbers: dict[str, float], sites: Iterable[Site]) -> dict[str, float]:
    """Return the numbers; NaN for each if an activation gave what is not finite, which no comparison tells."""
    is_finite = all(site.magnitude.isfinite().all() for site in sites)
    return numbers if is_finite else dict.fromkeys(numbers, math.nan)


def dormant_scores(magnitude_U: Tensor) -> Tensor:
    """Return each unit's mean |h| over the mean of its layer."""
    return magnitude_U / (magnitude_U.mean() + EPSILON)


def dormant_mask(scores_U: Tensor, tau: float) -> Tensor:
    return scores_U <= max(tau, ZERO)


@dataclass(frozen=True, kw_only=True)
class SaturatedShare(Metric):
    """The share of all hidden units with q in {0, 1}, q being how often z is above zero."""

    name = "saturation"

    def measure(self, observation: Observation) -> dict[str, float]:
        if not observation.sites:
            return {}
        masks = torch.cat([saturated_mask(site.positive_share) for site in observation.sites])
        return if_finite({"saturated_share": masks.double().mean().item()}, observation.sites)


def saturated_mask(q_U: Tensor) -> Tensor:
    """Return which units have z above zero always or never."""
    return (q_U == 0) | (q_U == 1)


@dataclass(frozen=True, kw_only=True)
class SignEntropy(Metric):
    """``sign_entropy``, the mean of H(q), and ``sign_bias``, the mean of |2q - 1|, over all hidden units."""

    name = "sign_entropy"

    def measure(self, observation: Observation) -> dict[str, float]:
        if not observation.sites:
            return {}
        q = torch.cat([site.positive_share for site in observation.sites])
        numbers = {"sign_entropy": binary_entropy(q).mean().item(), "sign_bias": (2 * q - 1).abs().mean().item()}
        return if_finite(numbers, observation.sites)


def binary_entropy(q: Tensor) -> Tensor:
    """Return the entropy, in bits, of a coin that falls on one side with probability q; 0 log 0 is 0."""
    return -(torch.xlogy(q, q) + torch.xlogy(1 - q, 1 - q)) / math.log(2)


@dataclass(frozen=True, kw_only=True)
class ActiveFraction(Metric):
    """``active_fraction``: how often h is not 0, over samples, positions and all hidden units; tanh: |h| <= 0.99.

    A unit that fires on one sample of a hundred is not dormant, but adds 0.01 here: it is not 1 - dormant ratio.
    """

    name = "active_fraction"
    watched = False

    def measure(self, observation: Observation) -> dict[str, float]:
        if not observation.sites:
            return {}
        return {"active_fraction": torch.cat([site.active_share for site in observation.sites]).mean().item()}
