"""Ranks of the penultimate features: in how many directions they differ.

srank_delta (Kumar et al. 2021) is the smallest k whose k largest singular values make up 1 - delta of their sum
(values, not squares; the features are not centred). The entropy form (Roy & Vetterli 2007) is exp of the entropy of the
normalised singular values. pca_rank is srank of the squares; stable_rank is their sum over the largest; feature_rank
counts values above a threshold. None exceeds min(n, d), so compare networks at one n.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from supple.metrics.base import Metric
from supple.metrics.observe import Observation

# A sum of rounded shares may miss the threshold that it equals in exact numbers; this is far above float64's rounding
# and far below what one singular value contributes.
ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class EffectiveRank(Metric):
    """``srank`` and ``effective_rank`` (the entropy form) of the features that the output layer reads."""

    name = "effective_rank"
    delta: float = 0.01  # Kumar et al. 2021, followed by the AID paper

    def __post_init__(self) -> None:
        if not 0.0 < self.delta < 1.0:
            raise ValueError(f"EffectiveRank.delta is the share of the sum left out, in (0, 1); got {self.delta}.")

    def measure(self, observation: Observation) -> dict[str, float]:
        if (values := observation.singular_values) is None:
            return {}
        return {"srank": srank(values, self.delta), "effective_rank": entropy_rank(values)}


@dataclass(frozen=True, kw_only=True)
class StableRank(Metric):
    """``stable_rank``: ||F||_F^2 / s_1^2, the textbook's; others give this name to srank."""

    name = "stable_rank"
    watched = False

    def measure(self, observation: Observation) -> dict[str, float]:
        values = observation.singular_values
        return {} if values is None else {"stable_rank": stable_rank(values)}


@dataclass(frozen=True, kw_only=True)
class PCARank(Metric):
    """``pca_rank``: the least k whose k largest squared singular values make up 1 - delta of their sum."""

    name = "pca_rank"
    watched = False
    delta: float = 0.01  # Moalla et al. 2024

    def __post_init__(self) -> None:
        if not 0.0 < self.delta < 1.0:
            raise ValueError(f"PCARank.delta is the share of the sum left out, in (0, 1); got {self.delta}.")

    def measure(self, observation: Observation) -> dict[str, float]:
        values = observation.singular_values
        return {} if values is None else {"pca_rank": pca_rank(values, self.delta)}


@dataclass(frozen=True, kw_only=True)
class FeatureRank(Metric):
    """``feature_rank``: how many singular values of F / sqrt(n) exceed ``threshold``."""

    name = "feature_rank"
    watched = False
    threshold: float = 0.01  # Lyle et al. 2022

    def __post_init__(self) -> None:
        if self.threshold < 0.0:
            raise ValueError(f"FeatureRank.threshold is a singular value, at least 0; got {self.threshold}.")

    def measure(self, observation: Observation) -> dict[str, float]:
        values, features_ND = observation.singular_values, observation.features_ND
        if values is None or features_ND is None:
            return {}
        return {"feature_rank": feature_rank(values, len(features_ND), self.threshold)}


def srank(values: Tensor, delta: float) -> float:
    """Return the smallest k with sum of the first k values >= (1 - delta) of the whole sum; 0 if all are 0."""
    total = values.sum()
    if not total > 0:
        return total.item()  # 0, or NaN for features that are not finite
    cumulative = values.cumsum(0) / total
    return float((cumulative < 1 - delta - ROUNDING).sum().item() + 1)


def entropy_rank(values: Tensor) -> float:
    """Return exp of the entropy of the values divided by their sum; 0 if all are 0."""
    total = values.sum()
    if not total > 0:
        return total.item()
    shares = values / total
    return torch.exp(-torch.xlogy(shares, shares).sum()).item()


def stable_rank(values: Tensor) -> float:
    """Return the sum of the squared values over the largest of them; 0 if all are 0."""
    largest = values.max()
    return ((values / largest) ** 2).sum().item() if largest > 0 else largest.item()


def pca_rank(values: Tensor, delta: float = 0.01) -> float:
    """Return the smallest k with sum of the first k squares >= (1 - delta) of their whole sum; 0 if all are 0."""
    largest = values.max()
    return srank((values / largest) ** 2, delta) if largest > 0 else largest.item()


def feature_rank(values: Tensor, num_rows: int, threshold: float = 0.01) -> float:
    """Return how many of the values, divided by sqrt(num_rows), exceed the threshold; NaN if one is no number."""
    if not values.isfinite().all():
        return math.nan
    return float((values / math.sqrt(num_rows) > threshold).sum())
