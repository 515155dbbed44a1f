"""Progress: the share of a run's steps that are done."""

from itertools import accumulate

from supple_lab.data.base import Facts
from supple_lab.scenarios.base import Scenario


class Progress:
    """Counts steps, for stages differ in length: the last stage of continual full has ten times those of the first."""

    def __init__(self, scenario: Scenario, facts: Facts, *, subnetworks: int = 0) -> None:
        self._sizes = [scenario.size(index, facts) for index in range(scenario.num_stages)]
        self._subnetworks = subnetworks  # copies trained at a stage's end for as many steps each
        self._before = [0, *accumulate(size.num_steps * (1 + subnetworks) for size in self._sizes)]

    @property
    def largest_stage(self) -> int:
        """Training images of the largest stage."""
        return max(size.num_images for size in self._sizes)

    def at(self, stage: int, epoch: int, step: int) -> float:
        """The share done when these stages, epochs and steps are."""
        done = self._before[stage] + epoch * self._sizes[stage].steps_per_epoch + step
        return min(done / self._before[-1], 1.0)

    def of_subnetworks(self, stage: int, share: float) -> float:
        """The share done when so much of the training of a stage's subnetworks is."""
        steps = self._sizes[stage].num_steps
        return (self._before[stage] + steps * (1 + self._subnetworks * share)) / self._before[-1]
