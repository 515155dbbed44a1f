"""Continual full (paper section 5.1.2): data arrives chunk by chunk and all that arrived is kept."""

from dataclasses import dataclass

from supple_lab.scenarios.arrival import Arrival


@dataclass(frozen=True, kw_only=True)
class ContinualFull(Arrival):
    """Stage k trains on chunks 1 to k. A new optimizer at each stage."""

    name = "continual_full"

    def oldest(self, index: int) -> int:
        return 0
