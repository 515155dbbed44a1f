"""Arrival: the studies of data that comes in ten parts (section 5.1.2, Figure 4); each says what becomes of the old."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from supple_lab.paper.claims import words_of
from supple_lab.paper.compare import (
    Chosen,
    Groups,
    compare,
    comparison_table,
    final_accuracy,
    label_of,
    mean_accuracy,
    of_the_paper,
    selection_notes,
    stage_panels,
)
from supple_lab.paper.groups import by_seed, in_each, in_one
from supple_lab.paper.networks import ALL, left_out, networks
from supple_lab.paper.notes import scale_notes
from supple_lab.paper.rules import lead_throughout
from supple_lab.paper.study import Condition, Scale, Study, StudyOptions
from supple_lab.report.figure import ClaimRow, Figure, StudyReport
from supple_lab.report.verdict import claim_difference_above, claim_difference_below
from supple_lab.results.results import Results, Sample
from supple_lab.scenarios import continual
from supple_lab.scenarios.base import Scenario


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

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        methods = self.quick_methods if order.scale == "quick" else ()
        return tuple(
            network.condition(self.scenarios[order.scale], order=order, experiment=self.name, methods=methods)
            for network in networks(order, *ALL)
        )

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        groups = compare(results, self.conditions(order), order=order)
        absent = dict.fromkeys(left_out(self.conditions(order), *ALL), Chosen({}))
        untried = f"VGG-16, and the methods of {self.table} that are not in the figure"
        return StudyReport(
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


MATCH = -0.01  # a point below full reset still counts as its match
HELP = 0.01  # a point above the vanilla network: less is no help
LEFT_OUT = ("l2_init", "redo")  # by the paper, as no help; they have no row in its table, so they run at their defaults
TO_RUN = "not in the paper's table; supple run continual_full --methods vanilla l2_init redo runs them"
FULL: dict[Scale, Scenario] = {
    "smoke": continual.ContinualFull(num_stages=2, epochs=1, batch_size=20),
    "quick": continual.ContinualFull(num_stages=5, epochs=25, batch_size=16),
    "paper": continual.ContinualFull(),
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
    scenarios = FULL
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


FAMILY = ("dropout", "drop_relu", "aid")
LIMITED: dict[Scale, Scenario] = {
    "smoke": continual.ContinualLimited(num_stages=2, epochs=1, batch_size=20),
    "quick": continual.ContinualLimited(num_stages=5, epochs=50, batch_size=16),
    "paper": continual.ContinualLimited(),
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
    scenarios = LIMITED
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
