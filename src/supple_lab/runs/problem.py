"""Problem: what is learned in a run. Supervised: a scenario over a dataset."""

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

from supple_lab.data.base import Dataset
from supple_lab.scenarios.base import Scenario


class Problem(ABC):
    """A frozen dataclass in every subclass."""

    name: ClassVar[str]


@dataclass(frozen=True, kw_only=True)
class Supervised(Problem):
    """Classification, stage after stage."""

    name = "supervised"
    scenario: Scenario
    dataset: Dataset
