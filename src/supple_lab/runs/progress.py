"""Progress: the share of a run's steps that are done."""

from itertools import accumulate

from supple_lab.data.base import Facts
from supple_lab.scenarios.base import Scenario


class Progress:
    """Counts steps, for stages differ in length: the last stage of continual full has ten times those of the first."""

    def __init__(self, scenario: Scenario, facts: Facts) -> None:
        self._sizes = [scenario.size(index, facts) for index in range(scenario.num_stages)]
        self._before = [0, *accumulate(size.num_steps for size in self._sizes)]

    @property
    def largest_stage(self) -> int:
        """Training images of the largest stage."""
        return max(size.num_images for size in self._sizes)

    def at(self, stage: int, epoch: int, step: int) -> float:
        """The share done when these stages, epochs and steps are."""
        done = self._before[stage] + epoch * self._sizes[stage].steps_per_epoch + step
        return min(done / self._before[-1], 1.0)
