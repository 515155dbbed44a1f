"""What the paper claims of class-incremental learning (section 5.1.2, appendix G.3), decided network by network."""

from dataclasses import replace

from supple_lab.paper.claims import words_of
from supple_lab.paper.compare import (
    Chosen,
    Groups,
    compare,
    comparison_table,
    difference_curve,
    label_of,
    mean_of_stages,
    methods_of,
    of_the_paper,
    quarters,
    selection_notes,
    stage_panels,
    where_ended,
)
from supple_lab.paper.groups import in_each, in_one
from supple_lab.paper.networks import left_out, networks
from supple_lab.paper.notes import TINY, scale_notes
from supple_lab.paper.rules import divergence, lead_throughout
from supple_lab.paper.study import Condition, Study, StudyOptions
from supple_lab.report.figure import ClaimRow, Figure, Level, Panel, StudyReport
from supple_lab.report.verdict import claim_above, claim_below, claim_difference_below, not_run
from supple_lab.results.results import Results, Sample
from supple_lab.scenarios.class_incremental import ClassIncremental as Scenario

LEARNED = "learned_test_accuracy"
DIFFERENCE = "mean difference to full reset in the quarter"


def claims(groups: Groups, num_stages: int) -> tuple[ClaimRow, ...]:
    """All of them, in the paper's order."""
    return (
        lead_is_lost(groups, num_stages),
        only_aid_stays_above(groups, num_stages),
        aid_leads(groups, num_stages),
    )


def mean_learned(results: Results) -> Sample:
    """Accuracy on the classes learned, the mean over stages."""
    return results.stage_mean(LEARNED)


def differences(group: Chosen, method: str, num_stages: int) -> list[Sample]:
    """A method's mean difference to full reset on the classes learned, quarter by quarter."""
    own, reset = group.of(method), group.of("full_reset")
    return [
        mean_of_stages(own, LEARNED, part).minus(mean_of_stages(reset, LEARNED, part)) for part in quarters(num_stages)
    ]


def lead_is_lost(groups: Groups, num_stages: int) -> ClaimRow:
    """Do Dropout and DASH start above full reset, and does the lead shrink?"""
    words = words_of("dropout_and_dash_lose_their_lead")
    rows = {}
    for label, group in groups.items():
        for method in ("dropout", "dash"):
            first, *_, last = differences(group, method, num_stages)
            name = f"{label}: {label_of(method)}"
            above = f"difference to full reset in the first quarter, {name}"
            shrinks = f"difference to full reset, last quarter minus first, {name}"
            rows[f"{name} ahead at first"] = claim_above(first, 0.0, quantity=above, **words)
            rows[f"{name} less so at last"] = claim_difference_below(last, first, quantity=shrinks, **words)
    return in_each(rows, words)


def only_aid_stays_above(groups: Groups, num_stages: int) -> ClaimRow:
    """Is AID above full reset in each quarter on each network, and is every other method below it in one?"""
    others = {
        f"{label_of(method)} (below somewhere)": below_somewhere(groups, method, num_stages)
        for method in methods_of(groups)
        if method not in ("aid", "full_reset")
    }
    aid = {"AID (above throughout)": above_throughout(groups, "aid", num_stages)}
    return in_each({**aid, **others}, words_of("only_aid_stays_above_reset"))


def above_throughout(groups: Groups, method: str, num_stages: int) -> ClaimRow:
    """Is a method above full reset in every quarter, each by its own interval?"""
    words = words_of("only_aid_stays_above_reset")
    rows = {
        f"{label} (quarter {place})": claim_above(sample, 0.0, quantity=DIFFERENCE, **words)
        for label, group in groups.items()
        for place, sample in enumerate(differences(group, method, num_stages), start=1)
    }
    return in_each(rows, words)


def below_somewhere(groups: Groups, method: str, num_stages: int) -> ClaimRow:
    """Is another method below full reset in a quarter, where it ended? Its quarters stand in one sentence: many."""
    rows = {
        name: row
        for label, group in groups.items()
        for name, row in below_by_quarter(label, group, method, num_stages).items()
    }
    finals = {label: group.of(method).final(LEARNED) for label, group in groups.items()}
    told = [f"{label}: {words}" for label, final in finals.items() if (words := divergence({method: final}))]
    row = in_one(rows, words_of("only_aid_stays_above_reset"))
    if told and row.verdict == "fails":  # above where it ended is not above throughout
        row = replace(row, verdict="not decided", chance=1.0)
    return replace(row, measured="; ".join((row.listed, *told)), parts=())


def below_by_quarter(label: str, group: Chosen, method: str, num_stages: int) -> dict[str, ClaimRow]:
    """The quarters of one network, each in the seeds that ended it; where all diverged, nothing is left to ask."""
    words, final = words_of("only_aid_stays_above_reset"), group.of(method).final(LEARNED)
    if len(final) and not len(where_ended(final)):
        row = replace(not_run(**words), verdict="holds", n=len(final), runs=final.runs)
        return {label: row}
    return {
        f"{label} (quarter {place})": claim_below(
            where_ended(mean_of_stages(group.of(method), LEARNED, part)).minus(
                mean_of_stages(group.of("full_reset"), LEARNED, part)
            ),
            0.0,
            quantity=DIFFERENCE,
            **words,
        )
        for place, part in enumerate(quarters(num_stages), start=1)
    }


def aid_leads(groups: Groups, num_stages: int) -> ClaimRow:
    """Is AID above each other method in each quarter on both networks, on the classes learned and on all?"""
    words = words_of("aid_leads_class_incremental")
    rows = {
        f"{label} ({classes}, {quarter})": row
        for label, group in groups.items()
        for classes, metric in (("the classes learned", LEARNED), ("all classes", "test_accuracy"))
        for quarter, row in lead_throughout(
            group,
            "aid",
            metric=metric,
            num_stages=num_stages,
            quantity=f"test accuracy on {classes}",
            words=words,
        ).items()
    }
    return in_each(rows, words)


BAND = "line: mean over seeds, band: one standard deviation."
SCENARIOS = {
    "smoke": Scenario(num_stages=2, epochs=1, batch_size=20),
    "quick": Scenario(num_stages=5, epochs=30, batch_size=16),
    "paper": Scenario(),
}
QUICK_METHODS = ("vanilla", "full_reset", "dropout", "shrink_perturb", "dash", "aid")


class ClassIncremental(Study):
    """All methods of Table 8 on ResNet-18 and VGG-16."""

    name = "class_incremental"
    title = "Class incremental: new classes at each stage"
    question = (
        "One network learns a few classes, then a few more, and so on, with all data kept. Does it stay ahead of one "
        "that starts from scratch at each stage?"
    )

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        methods = QUICK_METHODS if order.scale == "quick" else ()
        return tuple(
            network.condition(SCENARIOS[order.scale], order=order, experiment="class_incremental", methods=methods)
            for network in networks(order, "resnet18", "vgg16")
        )

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        # After the last stage all classes are learned: both accuracies select the same.
        groups = compare(results, self.conditions(order), order=order)
        absent = dict.fromkeys(left_out(self.conditions(order), "resnet18", "vgg16"), Chosen({}))
        return StudyReport(
            figures=(difference_figure(groups), learned_figure(groups), all_figure(groups)),
            tables=(
                comparison_table(
                    groups,
                    mean_learned,
                    name="learned",
                    caption="Test accuracy on the classes learned, mean over stages",
                ),
                comparison_table(
                    groups,
                    lambda runs: runs.final(LEARNED),
                    name="final",
                    caption="Test accuracy after the last stage, on all classes",
                ),
            ),
            claims=claims({**of_the_paper(groups, "class_incremental"), **absent}, SCENARIOS[order.scale].num_stages),
            notes=(
                *scale_notes(
                    order,
                    "class_incremental",
                    quick="5 stages of 30 epochs with 2 classes more at each, batches of 16",
                    left_out="VGG-16, and the methods of Table 8 that are not in the figure",
                    conditions=self.conditions(order),
                    silent=(TINY, "one head for all classes from the start and cross-entropy over all of them"),
                ),
                *selection_notes(groups),
            ),
        )


def difference_figure(groups: Groups) -> Figure:
    """Accuracy on the classes learned, minus full reset's."""
    return Figure(
        name="class_incremental",
        caption="Test accuracy on the classes learned so far, minus full reset's of the same seed, at the end of each "
        f"stage; {BAND}",
        panels=tuple(difference_panel(label, group) for label, group in groups.items()),
    )


def difference_panel(label: str, group: Chosen) -> Panel:
    """One network's differences; full reset is the line at zero."""
    reset = group.of("full_reset")
    curves = (
        difference_curve(runs, reset, LEARNED, method=name)
        for name, runs in group.by_method.items()
        if name != "full_reset"
    )
    return Panel(
        title=label,
        x_label="stage",
        y_label="test accuracy − full reset's",
        curves=tuple(curve for curve in curves if curve is not None),
        levels=(Level(label="full reset", value=0.0),),
    )


def learned_figure(groups: Groups) -> Figure:
    """Accuracy on the classes learned."""
    return Figure(
        name="class_incremental_learned",
        caption=f"Test accuracy on the classes learned so far, at the end of each stage; {BAND}",
        panels=stage_panels(groups, LEARNED, y_label="test accuracy, learned classes"),
    )


def all_figure(groups: Groups) -> Figure:
    """Accuracy on all classes, those to come included."""
    return Figure(
        name="class_incremental_all",
        caption=f"Test accuracy on all classes, at the end of each stage; {BAND}",
        panels=stage_panels(groups, "test_accuracy", y_label="test accuracy, all classes"),
    )
