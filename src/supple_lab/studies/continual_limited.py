"""Continual limited (section 5.1.2, Figure 4, bottom row): a tenth of the data at each stage, the rest gone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from supple_lab.report.figure import ClaimRow
from supple_lab.report.sample import Sample
from supple_lab.report.verdict import claim_difference_above
from supple_lab.scenarios.continual_limited import ContinualLimited as Scenario
from supple_lab.studies.arrival import Arrival, aid_leads
from supple_lab.studies.by_seed import by_seed
from supple_lab.studies.chosen import Chosen
from supple_lab.studies.comparison import Groups, final_accuracy
from supple_lab.studies.decide import words_of
from supple_lab.studies.groups import in_each
from supple_lab.studies.labels import label_of
from supple_lab.studies.order import Scale

FAMILY = ("dropout", "drop_relu", "aid")
SCENARIOS: dict[Scale, Scenario] = {
    "smoke": Scenario(num_stages=2, epochs=1, batch_size=20),
    "quick": Scenario(num_stages=5, epochs=50, batch_size=16),
    "paper": Scenario(),
}


class ContinualLimited(Arrival):
    """All methods of Table 7 on the three networks."""

    name = "continual_limited"
    title = "Continual limited: data arrives in parts, and what came before is gone"
    question = (
        "One network trains on the first tenth of the data, then on the second alone, and so on. Who goes on getting "
        "better, and forgets least?"
    )
    table = "Table 7"
    scenarios = SCENARIOS
    quick_methods = ("vanilla", "dropout", "s_ewc", "shrink_perturb", "dash", "drop_relu", "aid")
    quick = "5 stages of 50 epochs on 40 images each, batches of 16"

    def claims(self, groups: Groups, num_stages: int) -> tuple[ClaimRow, ...]:
        own = self.of_the_paper(groups)
        return aid_leads("aid_leads_continual_limited", own, num_stages), family_is_strong(own)


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


def unless_waiting(row: ClaimRow, waiting: Sequence[str]) -> ClaimRow:
    """The row, not decided while some of the outsiders have not run: their median can still move either way."""
    if not waiting or row.verdict == "not run":
        return row
    measured = f"{row.measured}; not run yet: {', '.join(waiting)}, so not decided"
    return replace(row, verdict="not decided", measured=measured, chance=1.0)


def outsiders(group: Chosen) -> dict[str, Sample]:
    """Final accuracy of the methods outside the family."""
    return {name: final_accuracy(runs) for name, runs in group.by_method.items() if name not in FAMILY}


def median(samples: Mapping[str, Sample]) -> Sample:
    """The median over methods, for the seeds that all of them have; a run that diverged ranks below all others."""
    ended = [sample for sample in samples.values() if len(sample)]
    return by_seed(ended, lambda values: float(np.median(np.nan_to_num(values, nan=-np.inf))))
