"""Arrival: the studies of data that comes in ten parts (section 5.1.2, Figure 4); each says what becomes of the old."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from supple_lab.report.figure import ClaimRow, Drawing, Figure
from supple_lab.report.results import Results
from supple_lab.scenarios.base import Scenario
from supple_lab.studies.base import Study
from supple_lab.studies.chosen import Chosen
from supple_lab.studies.comparison import (
    Groups,
    compare,
    comparison_table,
    final_accuracy,
    mean_accuracy,
    of_the_paper,
    selection_notes,
    stage_panels,
)
from supple_lab.studies.condition import Condition
from supple_lab.studies.decide import words_of
from supple_lab.studies.groups import in_each
from supple_lab.studies.lead import lead_throughout
from supple_lab.studies.networks import ALL, left_out, networks
from supple_lab.studies.order import Order, Scale
from supple_lab.studies.scale_notes import scale_notes


class Arrival(Study):
    """All methods of one table on the three networks, by test accuracy at the end of each stage."""

    table: ClassVar[str]  # of the paper's settings, as a reader calls it
    scenarios: ClassVar[Mapping[Scale, Scenario]]
    quick_methods: ClassVar[tuple[str, ...]]
    quick: ClassVar[str]  # how long and on what, at quick scale

    @abstractmethod
    def claims(self, groups: Groups, num_stages: int) -> tuple[ClaimRow, ...]:
        """The paper's claims, by network."""

    def of_the_paper(self, groups: Groups) -> dict[str, Chosen]:
        """The methods of the paper's table alone."""
        return of_the_paper(groups, self.name)

    def conditions(self, order: Order) -> tuple[Condition, ...]:
        methods = self.quick_methods if order.scale == "quick" else ()
        return tuple(
            network.condition(self.scenarios[order.scale], order=order, experiment=self.name, methods=methods)
            for network in networks(order, *ALL)
        )

    def draw(self, results: Results, order: Order) -> Drawing:
        groups = compare(results, self.conditions(order), order=order)
        absent = dict.fromkeys(left_out(self.conditions(order), *ALL), Chosen({}))
        untried = f"VGG-16, and the methods of {self.table} that are not in the figure"
        return Drawing(
            figures=(accuracy_figure(self.name, groups),),
            tables=(
                comparison_table(groups, final_accuracy, name="final", caption="Test accuracy after the last stage"),
                comparison_table(groups, mean_accuracy, name="mean", caption="Test accuracy, mean over the stages"),
            ),
            claims=self.claims({**groups, **absent}, self.scenarios[order.scale].num_stages),
            notes=(
                *scale_notes(order, self.name, quick=self.quick, left_out=untried, conditions=self.conditions(order)),
                *selection_notes(groups),
            ),
        )


def accuracy_figure(name: str, groups: Groups) -> Figure:
    """Test accuracy at the end of each stage."""
    return Figure(
        name=name,
        caption="Test accuracy at the end of each stage, on the whole test set; line: mean over seeds, band: one "
        "standard deviation.",
        panels=stage_panels(groups, "test_accuracy", y_label="test accuracy"),
    )


def aid_leads(key: str, groups: Groups, num_stages: int) -> ClaimRow:
    """Is AID above each other method on each network, in each quarter of the stages?"""
    words = words_of(key)
    rows = {
        f"{label} ({quarter})": row
        for label, group in groups.items()
        for quarter, row in lead_throughout(
            group, "aid", metric="test_accuracy", num_stages=num_stages, quantity="test accuracy", words=words
        ).items()
    }
    return in_each(rows, words)
