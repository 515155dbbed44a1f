"""Continual limited (paper section 5.1.2): data arrives chunk by chunk and what came before is gone."""

from dataclasses import dataclass

from supple_lab.scenarios.arrival import Arrival


@dataclass(frozen=True, kw_only=True)
class ContinualLimited(Arrival):
    """Stage k trains on chunk k alone. A new optimizer at each stage."""

    name = "continual_limited"

    def oldest(self, index: int) -> int:
        return index
