"""Class incremental (section 5.1.2, appendix G.3): new classes at each stage, decided network by network.

A condition of our own keeps a replay buffer in place of all earlier data.
"""

from dataclasses import replace
from functools import partial

from supple_lab.paper.claims import (
    BEYOND,
    Above,
    Beats,
    Below,
    Claim,
    Computed,
    Each,
    Number,
    final,
    lasting_quarter_mean,
    quarter_mean,
)
from supple_lab.paper.compare import BAND, difference_panel, label_of
from supple_lab.paper.findings import NOT_RUN, divergence, in_at_least, undecided
from supple_lab.paper.method_runs import (
    Groups,
    MethodRuns,
    in_quarters,
    method_by_method,
    methods_of,
    of_the_paper,
    selection_notes,
)
from supple_lab.paper.networks import TINY, NetworkStudy, comparison_table, networks, stage_panels
from supple_lab.paper.study import ByScale, Condition, StudyOptions
from supple_lab.report.figure import Figure, Finding, StudyReport
from supple_lab.results.results import Results, Sample
from supple_lab.scenarios.class_incremental import ClassIncremental as Scenario

LEARNED = "learned_test_accuracy"


DIFFERENCE = (quarter_mean(LEARNED, "each") - quarter_mean(LEARNED, "full_reset")).called(
    "mean difference to full reset on the classes learned"
)


def in_quarter(place: int, name: str) -> Number:
    words = f"{DIFFERENCE.text} in the {name} quarter"
    return Number(words, lambda runs: DIFFERENCE.of([*runs.by_quarter().values()][place]))


FIRST, LAST = in_quarter(0, "first"), in_quarter(-1, "last")
REPLAY = "{}, replay buffer"  # what such a condition is called
REPLAYED = ("vanilla", "full_reset", "aid")


def networks_of(groups: Groups) -> dict[str, MethodRuns]:
    """The paper's conditions and methods."""
    papers = {label: group for label, group in groups.items() if label not in replayed(groups)}
    return of_the_paper(papers, "class_incremental")


def replayed(groups: Groups) -> dict[str, MethodRuns]:
    return {label: group for label, group in groups.items() if label.endswith(REPLAY.format(""))}


def with_replay(groups: Groups) -> Sample:
    (runs,) = replayed(groups).values()
    return BEHIND_RELU.of(runs)


BEHIND_RELU = final("test_accuracy", "aid") - final("test_accuracy", "vanilla")
WITH_REPLAY = Number(f"{BEHIND_RELU.text} with a replay buffer", with_replay)


def beside_reset(method: str, groups: Groups) -> dict[str, MethodRuns]:
    return method_by_method(networks_of(groups), method, name="{group}")


ABOVE_THROUGHOUT = Each(
    "for AID in each quarter of the stages on both networks, each by its own interval",
    lambda groups: in_quarters(beside_reset("aid", groups)),
    Above(DIFFERENCE),
)


def only_aid_stays_above(groups: Groups) -> Finding:
    """Is AID above full reset in each quarter on each network, and is every other method below it in one?"""
    others = [method for method in methods_of(networks_of(groups)) if method not in ("aid", "full_reset")]
    found = {f"{label_of(method)} (below somewhere)": below_somewhere(groups, method) for method in others}
    found = {"AID (above throughout)": ABOVE_THROUGHOUT.decide(groups, "paper"), **found}
    return in_at_least(len(found), found)


def below_somewhere(groups: Groups, method: str) -> Finding:
    """Is another method below full reset in a quarter, where it ended? Its quarters stand in one sentence: many."""
    by_label = beside_reset(method, groups)
    found = {name: one for label, runs in by_label.items() for name, one in below_by_quarter(label, runs).items()}
    finals = {label: runs.of("each").final(LEARNED) for label, runs in by_label.items()}
    lost = {label: divergence({label_of(method): final}) for label, final in finals.items()}
    losses = [f"{label}: {words}" for label, words in lost.items() if words]
    whole = in_at_least(1, found)
    if losses and whole.verdict == "fails":  # above where it ended is not above throughout
        whole = undecided(whole)
    return replace(whole, measured="; ".join((whole.listed, *losses)), parts=())


def below_by_quarter(label: str, runs: MethodRuns) -> dict[str, Finding]:
    """The quarters of one network, each in the seeds that ended it; if all diverged, nothing is left to ask."""
    final = runs.of("each").final(LEARNED)
    if len(final) and not len(final.known):
        return {label: replace(NOT_RUN, verdict="holds", n=len(final), runs=final.runs)}
    ended = Number("", lambda part: part.mean("each", LEARNED).where_known())
    rule = Below((ended - quarter_mean(LEARNED, "full_reset")).called(DIFFERENCE.text))
    return {f"{label} ({quarter})": rule.decide(part, "paper") for quarter, part in runs.by_quarter().items()}


CLAIMS = (
    Claim(
        key="dropout_and_dash_lose_their_lead",
        paper="Dropout and DASH start ahead of full reset, and lose that advantage as training progresses.",
        claim="Dropout and DASH start above full reset, and the lead shrinks.",
        rule=Each(
            "for Dropout and DASH on both networks",
            lambda groups: method_by_method(networks_of(groups), "dropout", "dash", name="{group}: {method}"),
            {
                " ahead at first": Above(FIRST),
                " less so at last": Below((LAST - FIRST).called("that in the last quarter minus it")),
            },
        ),
    ),
    Claim(
        key="only_aid_stays_above_reset",
        paper="AID is the only method that keeps its advantage over full reset throughout the 20 phases.",
        claim="AID, and no other method, stays above full reset throughout.",
        rule=Computed(
            f"{ABOVE_THROUGHOUT.text}; and for every other method below 0 in at least one of these quarters, in the "
            "seeds that ended it. One that diverged in some seeds fails nothing",
            only_aid_stays_above,
        ),
    ),
    Claim(
        key="aid_leads_class_incremental",
        section="G.3 Additional Results for Class-Incremental",
        paper="AID consistently outperforms the other approaches, on the learned classes and on all classes.",
        claim="AID is the most accurate method in class-incremental learning throughout.",
        rule=Each(
            "on the learned and on all classes, in each quarter of the stages on both networks",
            lambda groups: {
                f"{label} ({classes}, {quarter})": replace(runs, metric=metric)
                for label, group in networks_of(groups).items()
                for classes, metric in (("the classes learned", LEARNED), ("all classes", "test_accuracy"))
                for quarter, runs in group.by_quarter().items()
            },
            Beats("aid", partial(lasting_quarter_mean, "")),
        ),
    ),
    Claim(
        key="aid_is_below_relu_with_replay",
        section=BEYOND,
        paper="Not in the paper. The authors of ChannelWavAct report AID below ReLU if a replay buffer is used.",
        claim="With a replay buffer in place of all earlier data, AID ends below ReLU.",
        rule=Below(WITH_REPLAY),
    ),
)


class ClassIncremental(NetworkStudy):
    """All methods of Table 8 on ResNet-18 and VGG-16."""

    name = "class_incremental"
    title = "Class incremental: new classes at each stage"
    question = (
        "One network learns a few classes, then a few more, and so on, with all data kept. Does it stay ahead of one "
        "that starts from scratch at each stage?"
    )
    section = "5.1.2 Generalizability"
    claims = CLAIMS
    scenarios = ByScale(
        smoke=Scenario(num_stages=2, epochs=1, batch_size=20),
        quick=Scenario(num_stages=5, epochs=30, batch_size=16),
        paper=Scenario(),
    )
    replays = ByScale(smoke=2, quick=4, paper=20)  # images of a class; 20: iCaRL's on CIFAR-100 (Rebuffi et al. 2017)
    cases = ("resnet18", "vgg16")
    quick_methods = ("vanilla", "full_reset", "dropout", "shrink_perturb", "dash", "aid")
    quick = "5 stages of 30 epochs with 2 classes more at each, batches of 16"
    left_out = "VGG-16, and the methods of Table 8 that are not in the figure"
    silent = (
        TINY,
        "one head for all classes from the start and cross-entropy over all of them",
        "the replay buffer is not the paper's: it keeps 20 images of each earlier class",
    )

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        """The paper's, and ResNet-18 with a replay buffer."""
        (resnet, *_), scenario = networks(order, *self.cases), self.scenarios.at(order.scale)
        assert isinstance(scenario, Scenario)
        scenario = replace(scenario, replay=self.replays.at(order.scale))
        condition = resnet.condition(scenario, order=order, experiment=self.name, methods=REPLAYED)
        return (*super().conditions(order), replace(condition, label=REPLAY.format(resnet.label)))

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        # After the last stage all classes are learned: both accuracies select the same.
        groups = self.groups(results, order)
        return StudyReport(
            figures=(
                Figure(
                    name="class_incremental",
                    caption="Test accuracy on the classes learned so far, minus full reset's of the same seed, at the "
                    f"end of each stage; {BAND}",
                    panels=tuple(
                        difference_panel(
                            label,
                            {
                                name: (runs, group.of("full_reset"))
                                for name, runs in group.by_method.items()
                                if name != "full_reset"
                            },
                            LEARNED,
                            y_label="test accuracy − full reset's",
                            zero="full reset",
                        )
                        for label, group in groups.items()
                    ),
                ),
                Figure(
                    name="class_incremental_learned",
                    caption=f"Test accuracy on the classes learned so far, at the end of each stage; {BAND}",
                    panels=stage_panels(groups, LEARNED, y_label="test accuracy, learned classes"),
                ),
                Figure(
                    name="class_incremental_all",
                    caption=f"Test accuracy on all classes, at the end of each stage; {BAND}",
                    panels=stage_panels(groups, "test_accuracy", y_label="test accuracy, all classes"),
                ),
            ),
            tables=(
                comparison_table(
                    groups,
                    lambda runs: runs.stage_mean(LEARNED),
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
            claims=self.decided({**groups, **dict.fromkeys(self.absent(order), MethodRuns())}, order),
            notes=(*self.notes(order), *selection_notes(groups)),
        )
