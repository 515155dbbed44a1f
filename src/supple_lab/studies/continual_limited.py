"""Continual limited (section 5.1.2, Figure 4, bottom row): a tenth of the data at each stage, the rest gone."""

from collections.abc import Mapping

import numpy as np

from supple_lab.report.figure import ClaimRow, Drawing, Figure
from supple_lab.report.results import Results
from supple_lab.report.sample import Sample
from supple_lab.report.verdict import claim_difference_above
from supple_lab.scenarios.continual_limited import ContinualLimited as Scenario
from supple_lab.studies.base import Study
from supple_lab.studies.by_seed import by_seed
from supple_lab.studies.chosen import Chosen
from supple_lab.studies.comparison import (
    Groups,
    compare,
    comparison_table,
    final_accuracy,
    lead,
    mean_accuracy,
    selection_notes,
    stage_panels,
    unless_waiting,
)
from supple_lab.studies.condition import Condition
from supple_lab.studies.decide import words_of
from supple_lab.studies.groups import in_each
from supple_lab.studies.labels import label_of
from supple_lab.studies.networks import ALL, networks
from supple_lab.studies.order import Order
from supple_lab.studies.scale_notes import scale_notes

FAMILY = ("dropout", "drop_relu", "aid")
SCENARIOS = {
    "smoke": Scenario(num_stages=2, epochs=1, batch_size=20),
    "quick": Scenario(num_stages=5, epochs=50, batch_size=16),
    "paper": Scenario(),
}
QUICK_METHODS = ("vanilla", "dropout", "s_ewc", "shrink_perturb", "dash", "drop_relu", "aid")


class ContinualLimited(Study):
    """All methods of Table 7 on the three networks."""

    name = "continual_limited"
    title = "Continual limited: data arrives in parts, and what came before is gone"
    question = (
        "One network trains on the first tenth of the data, then on the second alone, and so on. Who goes on getting "
        "better, and forgets least?"
    )

    def conditions(self, order: Order) -> tuple[Condition, ...]:
        methods = QUICK_METHODS if order.scale == "quick" else ()
        return tuple(
            network.condition(SCENARIOS[order.scale], order=order, experiment="continual_limited", methods=methods)
            for network in networks(order, *ALL)
        )

    def draw(self, results: Results, order: Order) -> Drawing:
        groups = compare(results, self.conditions(order), order=order)
        return Drawing(
            figures=(accuracy_figure(groups),),
            tables=(
                comparison_table(groups, final_accuracy, name="final", caption="Test accuracy after the last stage"),
                comparison_table(groups, mean_accuracy, name="mean", caption="Test accuracy, mean over the stages"),
            ),
            claims=(aid_leads(groups), family_is_strong(groups)),
            notes=(
                *scale_notes(
                    order,
                    "continual_limited",
                    quick="5 stages of 50 epochs on 40 images each, batches of 16",
                    left_out="VGG-16, and the methods of Table 7 that are not in the figure",
                ),
                *selection_notes(groups),
            ),
        )


def accuracy_figure(groups: Groups) -> Figure:
    """Test accuracy at the end of each stage."""
    return Figure(
        name="continual_limited",
        caption="Test accuracy at the end of each stage, on the whole test set; line: mean over seeds, band: one "
        "standard deviation.",
        panels=stage_panels(groups, "test_accuracy", y_label="test accuracy"),
    )


def aid_leads(groups: Groups) -> ClaimRow:
    """Is AID above the best other method on each network?"""
    words = words_of("aid_leads_continual_limited")
    rows = {
        label: lead(group, "aid", number=mean_accuracy, quantity="stage-mean test accuracy", words=words)
        for label, group in groups.items()
    }
    return in_each(rows, words)


def family_is_strong(groups: Groups) -> ClaimRow:
    """Are Dropout, DropReLU and AID each above the median of the other methods, on each network?"""
    words = words_of("dropout_family_strong_when_limited")
    rows = {
        f"{label}: {label_of(member)}": above_median(group, member)
        for label, group in groups.items()
        for member in FAMILY
    }
    return in_each(rows, words)


def above_median(group: Chosen, member: str) -> ClaimRow:
    """Is a member of the family above the median of the methods outside it?"""
    own, outside = final_accuracy(group.of(member)), outsiders(group)
    row = claim_difference_above(
        own,
        median(outside),
        quantity=f"final test accuracy, {label_of(member)} minus the median of the methods outside the family",
        **words_of("dropout_family_strong_when_limited"),
    )
    return unless_waiting(row, [label_of(name) for name, sample in outside.items() if not len(sample)])


def outsiders(group: Chosen) -> dict[str, Sample]:
    """Final accuracy of the methods outside the family."""
    return {name: final_accuracy(runs) for name, runs in group.by_method.items() if name not in FAMILY}


def median(samples: Mapping[str, Sample]) -> Sample:
    """The median over methods, for the seeds that all of them have; a run that diverged ranks below all others."""
    ended = [sample for sample in samples.values() if len(sample)]
    return by_seed(ended, lambda values: float(np.median(np.nan_to_num(values, nan=-np.inf))))
