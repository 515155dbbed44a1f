"""Distribution of the penultimate pre-activations (the paper's figure of their shift): quartiles and a histogram.

The values are z of the last hidden site, all units, samples and positions together. Under Dropout their median drifts
far below zero over the stages; under AID it stays.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from supple.metrics.base import Metric
from supple.metrics.observe import Observation


@dataclass(frozen=True, kw_only=True)
class PreactivationQuartiles(Metric):
    """``preactivation_q1``, ``_q2`` (the median) and ``_q3``."""

    name = "preactivation_quartiles"

    def measure(self, observation: Observation) -> dict[str, float]:
        if observation.preactivations is None:
            return {}
        quartiles = quantiles(observation.preactivations, (0.25, 0.5, 0.75))
        return {f"preactivation_q{number}": value for number, value in enumerate(quartiles, start=1)}


@dataclass(frozen=True, kw_only=True)
class PreactivationHistogram(Metric):
    """The share of values in each of equal bins from ``preactivation_low`` to ``preactivation_high``."""

    name = "preactivation_histogram"
    watched = False  # its numbers mean something only together
    num_bins: int = 50  # what a figure of column width can show

    def __post_init__(self) -> None:
        if self.num_bins < 1:
            raise ValueError(f"PreactivationHistogram.num_bins must be at least 1; got {self.num_bins}.")

    def measure(self, observation: Observation) -> dict[str, float]:
        if observation.preactivations is None:
            return {}
        low, high, shares = histogram(observation.preactivations, self.num_bins)
        bins = {f"preactivation_bin_{place:02d}": share for place, share in enumerate(shares)}
        return {"preactivation_low": low, "preactivation_high": high, **bins}


def quantiles(values: Tensor, levels: tuple[float, ...]) -> list[float]:
    """Return the values below which the given shares lie, interpolated between neighbours; NaN if a value is."""
    # torch.quantile refuses more than 2^24 values.
    ordered = values.flatten().sort().values
    if ordered[-1].isnan():  # it comes last
        return [math.nan] * len(levels)
    places = torch.tensor(levels, dtype=torch.float64, device=ordered.device) * (len(ordered) - 1)
    below, above = ordered[places.floor().long()].double(), ordered[places.ceil().long()].double()
    return torch.lerp(below, above, places.frac()).tolist()


def histogram(values: Tensor, num_bins: int) -> tuple[float, float, list[float]]:
    """Return the smallest value, the largest, and the share in each of equal bins; the last holds its upper edge.

    Between bounds that are not finite there are no bins, and shares are NaN.
    """
    values = values.flatten().double()
    low, high = values.min().item(), values.max().item()
    if not math.isfinite(high - low):
        return low, high, [math.nan] * num_bins
    width = (high - low) / num_bins or 1.0
    places = ((values - low) / width).long().clamp_(0, num_bins - 1)
    counts = torch.bincount(places, minlength=num_bins)
    return low, high, (counts.double() / len(values)).tolist()
