"""Study: which runs answer a question of the paper, and how their results are drawn."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from supple_lab.lookup import UnknownName
from supple_lab.report.figure import Drawing
from supple_lab.report.results import Results
from supple_lab.runs.spec import RunSpec
from supple_lab.studies.condition import Condition
from supple_lab.studies.order import Order


class Study(ABC):
    """One figure or table of the paper."""

    name: ClassVar[str]
    title: ClassVar[str]
    question: ClassVar[str]  # what the reader wants to know, in a sentence or two

    @abstractmethod
    def conditions(self, order: Order) -> Sequence[Condition]:
        """Under which conditions methods are compared; none where nothing is trained."""

    @abstractmethod
    def draw(self, results: Results, order: Order) -> Drawing:
        """Figures, tables and claims from what there is."""

    def objection(self, order: Order) -> str:
        """Why an option of the order would change nothing here; empty where each has something to change."""
        conditions = self.conditions(order)
        if not conditions:
            asked = {
                "--methods": order.methods,
                "--only": order.only,
                "--search": order.search,
                "--seeds": order.num_seeds,
                "--precision": order.precision != "default",
            }
            named = ", ".join(option for option, value in asked.items() if value)
            return f"{self.name} trains nothing, so {named} would change nothing. Leave it out." if named else ""
        if order.search and not any(condition.has_search for condition in conditions):
            return f"{self.name} has nothing to search: the paper tried no other settings there. Leave --search out."
        return ""

    def specs(self, order: Order) -> list[RunSpec]:
        """The runs that the study consists of, seed after seed: a sweep cut short has something of everything."""
        every = self.conditions(order)
        conditions = [condition for condition in every if order.only.lower() in condition.label.lower()]
        if every and not conditions:
            labels = "; ".join(condition.label for condition in every)
            raise UnknownName(f"no condition of {self.name} has {order.only!r} in its label. Its conditions: {labels}.")
        specs = [spec for condition in conditions for spec in condition.specs(order)]
        return sorted({spec.run_id: spec for spec in specs}.values(), key=lambda spec: spec.seed)
