"""Continual full (section 5.1.2, Figure 4, top row): a tenth of the data more at each stage, all of it kept."""

from supple_lab.report.figure import ClaimRow, Drawing, Figure
from supple_lab.report.results import Results
from supple_lab.report.verdict import claim_difference_above
from supple_lab.scenarios.continual_full import ContinualFull as Scenario
from supple_lab.studies.base import Study
from supple_lab.studies.comparison import (
    Groups,
    compare,
    comparison_table,
    final_accuracy,
    lead,
    mean_accuracy,
    selection_notes,
    stage_panels,
)
from supple_lab.studies.condition import Condition
from supple_lab.studies.decide import words_of
from supple_lab.studies.groups import in_each, in_one
from supple_lab.studies.labels import label_of
from supple_lab.studies.networks import ALL, networks
from supple_lab.studies.order import Order
from supple_lab.studies.scale_notes import scale_notes

MATCH = -0.01  # a point below full reset still counts as its match
SCENARIOS = {
    "smoke": Scenario(num_stages=2, epochs=1, batch_size=20),
    "quick": Scenario(num_stages=5, epochs=25, batch_size=16),
    "paper": Scenario(),
}
QUICK_METHODS = ("vanilla", "full_reset", "dropout", "shrink_perturb", "dash", "aid")


class ContinualFull(Study):
    """All methods of Table 6 on the three networks."""

    name = "continual_full"
    title = "Continual full: data arrives in parts, and all of it is kept"
    question = (
        "One network trains on a tenth of the data, then on two tenths, and so on. Does it end as accurate as one that "
        "starts from scratch at each stage?"
    )

    def conditions(self, order: Order) -> tuple[Condition, ...]:
        methods = QUICK_METHODS if order.scale == "quick" else ()
        return tuple(
            network.condition(SCENARIOS[order.scale], order=order, experiment="continual_full", methods=methods)
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
            claims=(aid_leads(groups), dash_and_shrink_match(groups)),
            notes=(
                *scale_notes(
                    order,
                    "continual_full",
                    quick="5 stages of 25 epochs with 40 images more at each, batches of 16",
                    left_out="VGG-16, and the methods of Table 6 that are not in the figure",
                ),
                *selection_notes(groups),
            ),
        )


def accuracy_figure(groups: Groups) -> Figure:
    """Test accuracy at the end of each stage."""
    return Figure(
        name="continual_full",
        caption="Test accuracy at the end of each stage, on the whole test set; line: mean over seeds, band: one "
        "standard deviation.",
        panels=stage_panels(groups, "test_accuracy", y_label="test accuracy"),
    )


def aid_leads(groups: Groups) -> ClaimRow:
    """Is AID above the best other method on each network?"""
    words = words_of("aid_leads_continual_full")
    rows = {
        label: lead(group, "aid", number=mean_accuracy, quantity="stage-mean test accuracy", words=words)
        for label, group in groups.items()
    }
    return in_each(rows, words)


def dash_and_shrink_match(groups: Groups) -> ClaimRow:
    """Do DASH and S&P come within a point of full reset on at least one network?"""
    words = words_of("dash_and_shrink_match_reset")

    def match_somewhere(method: str) -> ClaimRow:
        rows = {
            label: claim_difference_above(
                final_accuracy(group.of(method)),
                final_accuracy(group.of("full_reset")),
                MATCH,
                quantity=f"final test accuracy, {label_of(method)} minus full reset",
                **words,
            )
            for label, group in groups.items()
        }
        return in_one(rows, words)

    return in_each({label_of(method): match_somewhere(method) for method in ("dash", "shrink_perturb")}, words)
