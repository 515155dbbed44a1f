"""Study: which runs answer a question of the paper, and how their results are drawn."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

from supple.methods.base import Method
from supple_lab.report.figure import Drawing
from supple_lab.report.results import Results
from supple_lab.runs.spec import RunSpec

Scale = Literal["smoke", "quick", "paper"]


class Study(ABC):
    """One figure or table of the paper."""

    name: ClassVar[str]
    title: ClassVar[str]
    question: ClassVar[str]  # what the reader wants to know, in a sentence or two

    @abstractmethod
    def methods(self, scale: Scale) -> Sequence[Method]:
        """The methods the study compares, with the settings it runs them at."""

    @abstractmethod
    def num_seeds(self, scale: Scale) -> int:
        """How many seeds the study runs unless told otherwise."""

    @abstractmethod
    def specs(self, scale: Scale, methods: Sequence[Method], seeds: Sequence[int]) -> list[RunSpec]:
        """The runs that the study consists of."""

    @abstractmethod
    def draw(self, results: Results) -> Drawing:
        """Figures, tables and claims from what there is."""
