"""Continual full (section 5.1.2, Figure 4, top row): a tenth of the data more at each stage, all of it kept."""

from supple_lab.report.figure import ClaimRow
from supple_lab.report.verdict import claim_difference_above
from supple_lab.scenarios.continual_full import ContinualFull as Scenario
from supple_lab.studies.arrival import Arrival, aid_leads
from supple_lab.studies.comparison import Groups, final_accuracy
from supple_lab.studies.decide import words_of
from supple_lab.studies.groups import in_each, in_one
from supple_lab.studies.labels import label_of
from supple_lab.studies.order import Scale

MATCH = -0.01  # a point below full reset still counts as its match
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
        return aid_leads("aid_leads_continual_full", groups, num_stages), dash_and_shrink_match(groups)


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
