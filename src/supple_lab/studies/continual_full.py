"""Continual full (section 5.1.2, Figure 4, top row): a tenth of the data more at each stage, all of it kept."""

from dataclasses import replace

from supple_lab.report.figure import ClaimRow
from supple_lab.report.verdict import claim_difference_above, claim_difference_below
from supple_lab.scenarios.continual_full import ContinualFull as Scenario
from supple_lab.studies.arrival import Arrival, aid_leads
from supple_lab.studies.comparison import Groups, final_accuracy
from supple_lab.studies.decide import words_of
from supple_lab.studies.groups import in_each, in_one
from supple_lab.studies.labels import label_of
from supple_lab.studies.order import Scale

MATCH = -0.01  # a point below full reset still counts as its match
HELP = 0.01  # a point above the vanilla network: less is no help
LEFT_OUT = ("l2_init", "redo")  # by the paper, as no help; they have no row in its table, so they run at their defaults
TO_RUN = "not in the paper's table; supple run continual_full --methods vanilla l2_init redo runs them"
SCENARIOS: dict[Scale, Scenario] = {
    "smoke": Scenario(num_stages=2, epochs=1, batch_size=20),
    "quick": Scenario(num_stages=5, epochs=25, batch_size=16),
    "paper": Scenario(),
}


class ContinualFull(Arrival):
    """All methods of Table 6 on the three networks."""

    name = "continual_full"
    title = "Continual full: data arrives in parts, and all of it is kept"
    question = (
        "One network trains on a tenth of the data, then on two tenths, and so on. Does it end as accurate as one that "
        "starts from scratch at each stage?"
    )
    table = "Table 6"
    scenarios = SCENARIOS
    quick_methods = ("vanilla", "full_reset", "dropout", "shrink_perturb", "dash", "aid")
    quick = "5 stages of 25 epochs with 40 images more at each, batches of 16"

    def claims(self, groups: Groups, num_stages: int) -> tuple[ClaimRow, ...]:
        own = self.of_the_paper(groups)
        return (
            aid_leads("aid_leads_continual_full", own, num_stages),
            dash_and_shrink_match(own),
            l2_init_and_redo_do_not_help(groups),
        )


def l2_init_and_redo_do_not_help(groups: Groups) -> ClaimRow:
    """Are L2 Init and ReDo, which the paper leaves out, less than a point above the vanilla network on each network?"""
    words = words_of("l2_init_and_redo_do_not_generalize")
    rows = {
        f"{label_of(method)} on {label}": claim_difference_below(
            final_accuracy(group.of(method)),
            final_accuracy(group.of("vanilla")),
            HELP,
            quantity=f"final test accuracy, {label_of(method)} minus ReLU",
            **words,
        )
        for label, group in groups.items()
        for method in LEFT_OUT
    }
    row = in_each(rows, words)
    return replace(row, measured=TO_RUN) if row.verdict == "not run" else row


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
