"""Continual full and limited (section 5.1.2, Figure 4): data comes in ten parts, and the old stays or goes."""

from dataclasses import replace
from functools import partial

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
    final,
    lasting_quarter_mean,
)
from supple_lab.paper.compare import BAND, label_of
from supple_lab.paper.findings import undecided
from supple_lab.paper.method_runs import (
    Groups,
    MethodRuns,
    in_quarters,
    method_by_method,
    of_the_paper,
    selection_notes,
)
from supple_lab.paper.networks import NetworkStudy, comparison_table, final_accuracy, stage_panels
from supple_lab.paper.study import ByScale, StudyOptions
from supple_lab.report.figure import Figure, Finding, StudyReport
from supple_lab.results.results import Results, Sample, by_seed
from supple_lab.scenarios import continual


class Arrival(NetworkStudy):
    """All methods of one table on the three networks, by test accuracy at the end of each stage."""

    section = "5.1.2 Generalizability"

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        groups = self.groups(results, order)
        caption = f"Test accuracy at the end of each stage, on the whole test set; {BAND}"
        panels = stage_panels(groups, "test_accuracy", y_label="test accuracy")
        return StudyReport(
            figures=(Figure(name=self.name, caption=caption, panels=panels),),
            tables=(
                comparison_table(groups, final_accuracy, name="final", caption="Test accuracy after the last stage"),
                comparison_table(
                    groups,
                    lambda runs: runs.stage_mean("test_accuracy"),
                    name="mean",
                    caption="Test accuracy, mean over the stages",
                ),
            ),
            claims=self.decided({**groups, **dict.fromkeys(self.absent(order), MethodRuns())}, order),
            notes=(*self.notes(order), *selection_notes(groups)),
        )


ACCURACY = partial(final, "test_accuracy")  # by method


def aid_leads(experiment: str) -> Each:
    """AID is above each other method of the paper on each network, in each quarter of the stages."""
    return Each(
        "in each quarter of the stages on each of the three",
        lambda groups: in_quarters(of_the_paper(groups, experiment)),
        Beats("aid", partial(lasting_quarter_mean, "test_accuracy")),
    )


MATCH = -0.01  # a point below full reset still counts as its match
MATCHES_RESET = {
    label_of(method): Some(
        "on at least one of the three",
        partial(of_the_paper, experiment="continual_full"),
        Above(ACCURACY(method) - ACCURACY("full_reset"), MATCH),
    )
    for method in ("dash", "shrink_perturb")
}
HELP = 0.01  # a point above the vanilla network: less is no help
LEFT_OUT = ("l2_init", "redo")  # by the paper, as no help; they have no row in its table, so they run at their defaults
TO_RUN = "not in the paper's table; supple run continual_full --methods vanilla l2_init redo runs them"
NO_HELP = Each(
    "for L2 Init and ReDo on each of the three, at their defaults, with the vanilla network's optimizer; run on demand "
    "alone, because the paper has no settings",
    lambda groups: method_by_method(groups, *LEFT_OUT, name="{method} on {group}"),
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
    scenarios = ByScale(
        smoke=continual.ContinualFull(num_stages=2, epochs=1, batch_size=20),
        quick=continual.ContinualFull(num_stages=5, epochs=25, batch_size=16),
        paper=continual.ContinualFull(),
    )
    quick_methods = ("vanilla", "full_reset", "dropout", "shrink_perturb", "dash", "aid")
    quick = "5 stages of 25 epochs with 40 images more at each, batches of 16"
    left_out = "VGG-16, and the methods of Table 6 that are not in the figure"
    claims = (
        Claim(
            key="aid_leads_continual_full",
            paper="AID has a noticeable advantage over the other methods throughout.",
            claim="AID is the most accurate method in continual full throughout, full reset included.",
            rule=aid_leads("continual_full"),
        ),
        Claim(
            key="dash_and_shrink_match_reset",
            paper="DASH and S&P are comparable or superior to full reset, depending on task and dataset.",
            claim="DASH and S&P match full reset in places.",
            rule=All(MATCHES_RESET),
        ),
        Claim(
            key="l2_init_and_redo_do_not_generalize",
            paper="L2 Init and ReDo are left out, as they have no improvement on generalizability.",
            claim="L2 Init and ReDo are no more accurate than the vanilla network.",
            rule=Computed(NO_HELP.text, no_help),
        ),
    )


FAMILY = ("dropout", "drop_relu", "aid")


def outside(runs: MethodRuns) -> dict[str, Sample]:
    return {name: ACCURACY(name).of(runs) for name in runs.by_method if name not in (*FAMILY, "each")}


def median_outside(runs: MethodRuns) -> Sample:
    """Their median, for the seeds that all of them have; a run that diverged ranks below all others."""
    ended = [sample for sample in outside(runs).values() if len(sample)]
    return by_seed(ended, lambda values: float(np.median(np.nan_to_num(values, nan=-np.inf))))


ABOVE_MEDIAN = Above(ACCURACY("each") - Number("the median of the methods outside the family", median_outside))


def above_median(runs: MethodRuns) -> Finding:
    """Is one above the median of the others? Not decided while some have not run: it can still move either way."""
    found = ABOVE_MEDIAN.decide(runs, "paper")
    waiting = [label_of(name) for name, sample in outside(runs).items() if not len(sample)]
    if not waiting or found.verdict == "not run":
        return found
    return undecided(found, f"not run yet: {', '.join(waiting)}, so not decided")


class ContinualLimited(Arrival):
    """All methods of Table 7 on the three networks."""

    name = "continual_limited"
    title = "Continual limited: data arrives in parts, and what came before is gone"
    question = (
        "One network trains on the first tenth of the data, then on the second alone, and so on. Who goes on getting "
        "better, and forgets least?"
    )
    scenarios = ByScale(
        smoke=continual.ContinualLimited(num_stages=2, epochs=1, batch_size=20),
        quick=continual.ContinualLimited(num_stages=5, epochs=50, batch_size=16),
        paper=continual.ContinualLimited(),
    )
    quick_methods = ("vanilla", "dropout", "s_ewc", "shrink_perturb", "dash", "drop_relu", "aid")
    quick = "5 stages of 50 epochs on 40 images each, batches of 16"
    left_out = "VGG-16, and the methods of Table 7 that are not in the figure"
    claims = (
        Claim(
            key="aid_leads_continual_limited",
            paper="The trend persists in the continual limited setting.",
            claim="AID is the most accurate method in continual limited throughout.",
            rule=aid_leads("continual_limited"),
        ),
        Claim(
            key="dropout_family_strong_when_limited",
            paper="Dropout, DropReLU and AID all perform strongly in the continual limited setting.",
            claim="The Dropout family is strong where old data are gone.",
            rule=Each(
                "for Dropout, DropReLU and AID on each of the three",
                lambda groups: method_by_method(
                    of_the_paper(groups, "continual_limited"), *FAMILY, name="{group}: {method}"
                ),
                Computed(f"{ABOVE_MEDIAN.text}, not decided before all of those have run", above_median),
            ),
        ),
    )
