"""Arrival: the studies of data that comes in ten parts (section 5.1.2, Figure 4); each says what becomes of the old."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from supple_lab.paper.claims import (
    Above,
    All,
    Beats,
    Below,
    Claim,
    Computed,
    Each,
    Number,
    Some,
    by_seed,
    final,
    lasting_quarter_mean,
)
from supple_lab.paper.compare import (
    Groups,
    MethodRuns,
    compare,
    comparison_table,
    final_accuracy,
    in_quarters,
    label_of,
    mean_accuracy,
    of_the_paper,
    selection_notes,
    stage_panels,
)
from supple_lab.paper.findings import undecided
from supple_lab.paper.networks import ALL, left_out, networks
from supple_lab.paper.notes import scale_notes
from supple_lab.paper.study import Condition, Scale, Study, StudyOptions
from supple_lab.report.figure import Figure, Finding, StudyReport
from supple_lab.results.results import Results, Sample
from supple_lab.scenarios import continual
from supple_lab.scenarios.base import Scenario


class Arrival(Study):
    """All methods of one table on the three networks, by test accuracy at the end of each stage."""

    table: ClassVar[str]  # of the paper's settings, as a reader calls it
    scenarios: ClassVar[Mapping[Scale, Scenario]]
    quick_methods: ClassVar[tuple[str, ...]]
    quick: ClassVar[str]  # how long and on what, at quick scale

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        methods = self.quick_methods if order.scale == "quick" else ()
        return tuple(
            network.condition(self.scenarios[order.scale], order=order, experiment=self.name, methods=methods)
            for network in networks(order, *ALL)
        )

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        groups = compare(results, self.conditions(order), order=order)
        absent = dict.fromkeys(left_out(self.conditions(order), *ALL), MethodRuns({}))
        untried = f"VGG-16, and the methods of {self.table} that are not in the figure"
        return StudyReport(
            figures=(
                Figure(
                    name=self.name,
                    caption="Test accuracy at the end of each stage, on the whole test set; line: mean over seeds, "
                    "band: one standard deviation.",
                    panels=stage_panels(groups, "test_accuracy", y_label="test accuracy"),
                ),
            ),
            tables=(
                comparison_table(groups, final_accuracy, name="final", caption="Test accuracy after the last stage"),
                comparison_table(groups, mean_accuracy, name="mean", caption="Test accuracy, mean over the stages"),
            ),
            claims=self.decided({**groups, **absent}, order),
            notes=(
                *scale_notes(order, self.name, quick=self.quick, left_out=untried, conditions=self.conditions(order)),
                *selection_notes(groups),
            ),
        )


SECTION = "5.1.2 Generalizability"
MATCH = -0.01  # a point below full reset still counts as its match
HELP = 0.01  # a point above the vanilla network: less is no help
LEFT_OUT = ("l2_init", "redo")  # by the paper, as no help; they have no row in its table, so they run at their defaults
TO_RUN = "not in the paper's table; supple run continual_full --methods vanilla l2_init redo runs them"
FULL: dict[Scale, Scenario] = {
    "smoke": continual.ContinualFull(num_stages=2, epochs=1, batch_size=20),
    "quick": continual.ContinualFull(num_stages=5, epochs=25, batch_size=16),
    "paper": continual.ContinualFull(),
}


ACCURACY = partial(final, "test_accuracy")  # by method


def aid_leads(experiment: str) -> Each:
    """AID is above each other method of the paper on each network, in each quarter of the stages."""
    return Each(
        "in each quarter of the stages on each of the three",
        lambda groups: in_quarters(of_the_paper(groups, experiment)),
        Beats("aid", partial(lasting_quarter_mean, "test_accuracy")),
    )


def matches_reset(method: str) -> Some:
    """A method comes within a point of full reset on at least one network."""
    within_a_point = Above(ACCURACY(method) - ACCURACY("full_reset"), MATCH)
    return Some("on at least one of the three", lambda groups: of_the_paper(groups, "continual_full"), within_a_point)


NO_HELP = Each(
    "for L2 Init and ReDo on each of the three, at their defaults, with the vanilla network's optimizer; run on demand "
    "alone, because the paper has no settings",
    lambda groups: {
        f"{label_of(method)} on {label}": group.called(each=method, vanilla="vanilla")
        for label, group in groups.items()
        for method in LEFT_OUT
    },
    Below(ACCURACY("each") - ACCURACY("vanilla"), HELP),
)


def no_help(groups: Groups) -> Finding:
    """What the rule finds, or how to have it run."""
    found = NO_HELP.decide(groups, "paper")
    return replace(found, measured=TO_RUN) if found.verdict == "not run" else found


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
    claims = (
        Claim(
            key="aid_leads_continual_full",
            section=SECTION,
            paper="AID has a noticeable advantage over the other methods throughout.",
            claim="AID is the most accurate method in continual full throughout, full reset included.",
            rule=aid_leads("continual_full"),
        ),
        Claim(
            key="dash_and_shrink_match_reset",
            section=SECTION,
            paper="DASH and S&P are comparable or superior to full reset, depending on task and dataset.",
            claim="DASH and S&P match full reset in places.",
            rule=All({label_of(method): matches_reset(method) for method in ("dash", "shrink_perturb")}),
        ),
        Claim(
            key="l2_init_and_redo_do_not_generalize",
            section=SECTION,
            paper="L2 Init and ReDo are left out, as they have no improvement on generalizability.",
            claim="L2 Init and ReDo are no more accurate than the vanilla network.",
            rule=Computed(NO_HELP.text, no_help),
        ),
    )


FAMILY = ("dropout", "drop_relu", "aid")
LIMITED: dict[Scale, Scenario] = {
    "smoke": continual.ContinualLimited(num_stages=2, epochs=1, batch_size=20),
    "quick": continual.ContinualLimited(num_stages=5, epochs=50, batch_size=16),
    "paper": continual.ContinualLimited(),
}


def above_median(runs: MethodRuns) -> Finding:
    """Is one above the median of the others? Not decided while some have not run: it can still move either way."""
    found = ABOVE_MEDIAN.decide(runs, "paper")
    waiting = [label_of(name) for name, sample in outside(runs).items() if not len(sample)]
    if not waiting or found.verdict == "not run":
        return found
    return undecided(found, f"not run yet: {', '.join(waiting)}, so not decided")


def median(samples: Iterable[Sample]) -> Sample:
    """The median over methods, for the seeds that all of them have; a run that diverged ranks below all others."""
    ended = [sample for sample in samples if len(sample)]
    return by_seed(ended, lambda values: float(np.median(np.nan_to_num(values, nan=-np.inf))))


def outside(runs: MethodRuns) -> dict[str, Sample]:
    """Final accuracy of the methods outside the family."""
    return {name: ACCURACY(name).of(runs) for name in runs.by_method if name != "each"}


ABOVE_MEDIAN = Above(
    ACCURACY("each")
    - Number("the median of the methods outside the family", lambda runs: median(outside(runs).values()))
)


def members(groups: Groups) -> dict[str, MethodRuns]:
    """Each of the family beside the methods outside it, on each network."""
    return {
        f"{label}: {label_of(member)}": group.called(each=member, **{name: name for name in rest})
        for label, group in of_the_paper(groups, "continual_limited").items()
        for rest in [[name for name in group.by_method if name not in FAMILY]]
        for member in FAMILY
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
    claims = (
        Claim(
            key="aid_leads_continual_limited",
            section=SECTION,
            paper="The trend persists in the continual limited setting.",
            claim="AID is the most accurate method in continual limited throughout.",
            rule=aid_leads("continual_limited"),
        ),
        Claim(
            key="dropout_family_strong_when_limited",
            section=SECTION,
            paper="Dropout, DropReLU and AID all perform strongly in the continual limited setting.",
            claim="The Dropout family is strong where old data are gone.",
            rule=Each(
                "for Dropout, DropReLU and AID on each of the three",
                members,
                Computed(f"{ABOVE_MEDIAN.text}, not decided before all of those have run", above_median),
            ),
        ),
    )
