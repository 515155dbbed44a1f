"""Problem: what is learned in a run. Supervised: a scenario over a dataset."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

from supple.fields import Checked
from supple.metrics.base import Metric
from supple_lab.data.base import Dataset
from supple_lab.scenarios.base import Scenario


class Problem(Checked, ABC):
    """A frozen dataclass in every subclass."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def num_records(self) -> int:
        """How many records a run leaves that is done: one a stage."""


@dataclass(frozen=True, kw_only=True)
class Supervised(Problem):
    """Classification, stage after stage; what is measured besides accuracy and loss is part of the problem."""

    name = "supervised"
    scenario: Scenario
    dataset: Dataset
    metrics: tuple[Metric, ...] = field(default=(), metadata={"later": True})
    metrics_every: int = field(default=1, metadata={"later": True})  # stages; the last one is always measured
    subnetworks: int = field(default=0, metadata={"later": True})  # trained on copies at each stage's end (section 3.1)

    def __post_init__(self) -> None:
        if self.metrics_every < 1:
            raise ValueError(f"Supervised.metrics_every counts stages, at least 1; got {self.metrics_every}.")
        if self.subnetworks < 0:
            raise ValueError(f"Supervised.subnetworks is a number of copies, at least 0; got {self.subnetworks}.")

    @property
    def num_records(self) -> int:
        return self.scenario.num_stages
