"""What the paper claims of the numbers inside the networks of its trainability runs (appendix G.1.2)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from supple.metrics.base import Metric
from supple.metrics.rank import EffectiveRank
from supple.metrics.units import DormantRatio, SaturatedShare, SignEntropy
from supple_lab.paper import trainability
from supple_lab.paper.claims import (
    LOST,
    Above,
    Agree,
    All,
    Below,
    Claim,
    Computed,
    Each,
    Lost,
    Number,
    OnlyIf,
    Rule,
    declines,
    final,
    number,
    quarter_mean,
    words_for,
)
from supple_lab.paper.compare import (
    MethodRuns,
    chosen,
    label_of,
    methods_of,
    selection_notes,
    shown,
    stage_curves,
    stage_label,
)
from supple_lab.paper.fresh import ends, fresh_accuracy, reference, stand_in_notes
from supple_lab.paper.study import Condition, Study, StudyOptions
from supple_lab.paper.tables import ADAM_HIGH
from supple_lab.paper.trainability import HALF
from supple_lab.paper.trainability_grid import SELECTED_BY
from supple_lab.report.figure import Figure, Panel, StudyReport, Table
from supple_lab.results.results import Results, Sample
from supple_lab.scenarios.permuted_input import PermutedInput
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.spec import Supervised

RANDOM, PERMUTED = "random label", "permuted input"
READINGS = {"online accuracy": "online_accuracy", "accuracy at the end of a stage": "train_accuracy"}
OTHERS = ("vanilla", "dropout")


@dataclass(frozen=True)
class Group:
    """One problem's runs to report, and its fresh vanilla networks."""

    runs: MethodRuns
    references: Results
    metric: str = "online_accuracy"  # that a claim is about

    def of(self, method: str) -> Results:
        """The method's runs; none if it was not run."""
        return self.runs.of(method)

    def fresh(self, metric: str) -> Sample:
        """What a fresh vanilla network comes to, a number a seed."""
        return fresh_accuracy(self.references, self.of("vanilla"), metric)

    def below(self, method: str, metric: str) -> Sample:
        """How far a method ends below a fresh vanilla network, seed by seed."""
        return self.fresh(metric).minus(ends(self.of(method), metric))


Groups = Mapping[str, Group]  # by problem, as it is called
NOTHING = Group(MethodRuns({}), Results(()))


def end(metric: str, method: str) -> Number:
    """The last tenth of the stages."""
    return number(f"last tenth of {words_for(metric)}", method, lambda group: ends(group.of(method), metric))


def shortfall(method: str) -> Number:
    """How far the last tenth is below a fresh vanilla network, by the accuracy that is asked."""
    return number("shortfall", method, lambda group: group.below(method, group.metric))


def fresh(metric: str) -> Number:
    """What a fresh vanilla network comes to."""
    return Number(f"{words_for(metric)} of a fresh vanilla network", lambda group: group.fresh(metric))


def rivals(groups: Groups) -> dict[str, MethodRuns]:
    """AID beside each of the two on each problem."""
    return {
        f"{name} against {label_of(other)}": group.runs.called(aid="aid", other=other)
        for name, group in groups.items()
        for other in OTHERS
    }


def above_throughout(key: str, metric: str, paper: str, claim: str) -> Claim:
    """The claim that AID's number is above each of the other two in each quarter of the stages, on both problems."""
    return Claim(
        key=key,
        section=SECTION,
        paper=paper,
        claim=claim,
        rule=Each(
            "the other being vanilla and Dropout, in each quarter of the stages on both problems, each by its own "
            "interval",
            lambda groups: {
                f"{name} ({quarter})": part
                for name, pair in rivals(groups).items()
                for quarter, part in pair.by_measured_quarter(metric, "aid").items()
            },
            Above(quarter_mean(metric, "aid") - quarter_mean(metric, "other")),
        ),
    )


def no_effect() -> Rule:
    """Dropout is less than five points better than a vanilla network that has lost its plasticity, in each number."""
    better = {
        **{f"{name}, last tenth": end(metric, "dropout") - end(metric, "vanilla") for name, metric in READINGS.items()},
        "saturated share": final("saturated_share", "vanilla") - final("saturated_share", "dropout"),
        "sign entropy": final("sign_entropy", "dropout") - final("sign_entropy", "vanilla"),
    }
    losses = {
        f"ReLU has lost its plasticity by {name}": Lost(end(metric, "vanilla"), fresh(metric))
        for name, metric in READINGS.items()
    }
    return OnlyIf(losses, All({name: Below(difference, LOST) for name, difference in better.items()}))


VANILLA, DROPOUT = shortfall("vanilla"), shortfall("dropout")
HELPS_SLIGHTLY = OnlyIf(
    {"there is a loss": Above(VANILLA.in_seeds_of(DROPOUT))},
    All({"it helps": Above(VANILLA - DROPOUT), "slightly": Above(DROPOUT - HALF * VANILLA)}),
)
NO_EFFECT = no_effect()
SECTION = "G.1.2 Analysis of Metrics Contributing to Plasticity Loss"
CLAIMS = (
    Claim(
        key="dropout_has_no_effect_on_random_labels",
        section=SECTION,
        paper="Dropout had no effect on random label MNIST.",
        claim="On random labels Dropout does nothing against the loss of plasticity.",
        rule=Computed(
            f"{NO_EFFECT.text}, on random labels",
            lambda groups: NO_EFFECT.decide(groups.get(RANDOM, NOTHING), "paper"),
            NO_EFFECT.caveats,
        ),
    ),
    Claim(
        key="dropout_helps_permuted_only_slightly",
        section=SECTION,
        paper="Dropout provided only a slight improvement in permuted MNIST.",
        claim="On permuted MNIST Dropout makes up for some of the vanilla network's loss, and for less than half.",
        rule=Agree(
            "on permuted pixels, by both accuracies",
            lambda groups: {
                name: replace(groups.get(PERMUTED, NOTHING), metric=metric) for name, metric in READINGS.items()
            },
            HELPS_SLIGHTLY,
        ),
    ),
    Claim(
        key="aid_prevents_saturation",
        section=SECTION,
        paper="Many units of the vanilla and Dropout networks become dormant; AID prevents saturation.",
        claim="Fewer units saturate with AID than without or with Dropout.",
        rule=Each(
            "the other being vanilla and Dropout, on both problems; not the dormant ratio, which is 0 for AID by "
            "construction",
            rivals,
            Below(final("saturated_share", "aid") - final("saturated_share", "other")),
        ),
    ),
    above_throughout(
        "aid_keeps_sign_entropy",
        "sign_entropy",
        "AID keeps a consistently higher sign entropy.",
        "AID's units change sign more than those of the vanilla and the Dropout network throughout.",
    ),
    above_throughout(
        "aid_keeps_effective_rank",
        "srank",
        "AID preserves the effective rank throughout training.",
        "AID's features have a higher rank than those of the vanilla and the Dropout network throughout.",
    ),
    Claim(
        key="vanilla_and_dropout_ranks_decline",
        section=SECTION,
        paper="The effective ranks of the vanilla and the Dropout network rapidly decline.",
        claim="The effective ranks of the vanilla and the Dropout network decline.",
        rule=Each(
            "for vanilla and Dropout on both problems",
            lambda groups: {
                f"{label_of(method)} on {name}": group.runs.called(each=method)
                for name, group in groups.items()
                for method in OTHERS
            },
            declines("srank"),
        ),
    ),
)

METHODS = ("vanilla", "dropout", "aid")
METRICS: tuple[Metric, ...] = (DormantRatio(), SaturatedShare(), SignEntropy(), EffectiveRank())
# At paper scale the rank of 2,000 units takes as long as several stages of permuted pixels and a part of one of random
# labels; so about a hundred values of each. Smaller networks are measured at every stage.
EVERY = {"permuted_input": 10, "random_label": 2}
QUICK = {
    "permuted_input": PermutedInput(num_stages=200, batch_size=16),
    "random_label": RandomLabel(num_stages=15, epochs=40),
}


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A number of the network and how it is drawn."""

    metric: str
    title: str
    is_share: bool = True


QUANTITIES = (
    Quantity(metric="dormant_ratio", title="dormant units"),
    Quantity(metric="saturated_share", title="saturated units"),
    Quantity(metric="sign_entropy", title="sign entropy"),
    Quantity(metric="srank", title="effective rank", is_share=False),
)
CAVEAT = (
    "The dormant ratio asks for an output of zero. AID's is zero only where its input is, so its dormant ratio is 0 by "
    "construction and says nothing. The saturated share beside it asks the same of every activation: units whose "
    "pre-activation has one sign on all images. The claim on saturation rests on it."
)
ENTROPY = (
    "The paper prints E[sgn h], a mean and no entropy, as sign entropy; we take the entropy of the sign of each unit's "
    "pre-activation, in bits. Effective rank: the number of singular values that make up 99% of their sum."
)
SCALE_NOTES = {
    "smoke": trainability.SCALE_NOTES["smoke"],
    "quick": (
        "Quick scale, not the paper's protocol: 1,600 digits of 8x8 pixels in place of MNIST, 3 x 128 units in place "
        "of 3 x 2,000, 200 permutations in batches of 16 and 15 x 40 epochs of random labels. Settings are those of "
        "the paper's tables.",
    ),
    "paper": (
        "Measured on 2,000 images of the stage, drawn once a seed, or on all 1,600, every 10 permutations and every 2 "
        "labellings.",
    ),
}


class TrainabilityMetrics(Study):
    """Dormant and saturated units, sign entropy and effective rank for ReLU, Dropout and AID."""

    name = "trainability_metrics"
    title = "Inside the networks: dormant units, signs and rank"
    question = (
        "A network that stops learning has changed inside: units fall silent, their signs no longer depend on the "
        "input, features collapse into few directions. Do Dropout and AID prevent it?"
    )
    claims = CLAIMS

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        return tuple(one for cell in cells(order) for one in (cell, reference(cell, order)))

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        groups = {cell.experiment.replace("_", " "): group_of(results, cell, order) for cell in cells(order)}
        return StudyReport(
            figures=(figure(groups),),
            tables=(table(groups),),
            claims=self.decided(groups, order),
            notes=(
                *SCALE_NOTES[order.scale],
                CAVEAT,
                ENTROPY,
                *selection_notes({name: group.runs for name, group in groups.items()}),
                *stand_in_notes({name: (group.references, group.of("vanilla")) for name, group in groups.items()}),
            ),
        )


def cells(order: StudyOptions) -> tuple[Condition, ...]:
    """Both problems."""
    return tuple(measured(problem, order) for problem in ("random_label", "permuted_input"))


def group_of(results: Results, cell: Condition, order: StudyOptions) -> Group:
    """The runs of one problem."""
    runs = chosen(results, cell, order=order, metric=SELECTED_BY[cell.experiment], rule="stage_mean")
    return Group(runs, reference(cell, order).of(results, order))


def measured(problem: str, order: StudyOptions) -> Condition:
    """The cell of the trainability grid, with what is measured inside the network."""
    cell = trainability.condition(problem, ADAM_HIGH, order)
    scenario = QUICK[problem] if order.scale == "quick" else trainability.SCENARIOS[order.scale][problem]
    every = EVERY[problem] if order.scale == "paper" else 1
    watched = Supervised(
        scenario=scenario, dataset=trainability.DATASETS[order.scale], metrics=METRICS, metrics_every=every
    )
    return replace(cell, problem=watched, methods=METHODS)


def figure(groups: Groups) -> Figure:
    """A row for each problem, a column for each number."""
    return Figure(
        name="trainability_metrics",
        caption="Inside the network at the end of a stage, in evaluation mode, with Adam 1e-3; line: mean over seeds, "
        "band: one standard deviation. AID's dormant ratio is 0 by construction: read the saturated share.",
        panels=tuple(panel(name, group, quantity) for name, group in groups.items() for quantity in QUANTITIES),
        columns=len(QUANTITIES),
    )


def panel(name: str, group: Group, quantity: Quantity) -> Panel:
    """One number on one problem."""
    return Panel(
        title=f"{name}: {quantity.title}",
        x_label=stage_label(group.runs.by_method, quantity.metric),
        y_label=quantity.title + (" (share)" if quantity.metric.endswith(("ratio", "share")) else ""),
        curves=stage_curves(group.runs.by_method, quantity.metric),
        y_range=(0.0, 1.02) if quantity.is_share else None,
    )


def table(groups: Groups) -> Table:
    """Every number at the last stage."""
    rows = tuple(
        (
            name,
            label_of(method),
            *(shown(group.of(method).final(quantity.metric)) for quantity in QUANTITIES),
            str(len(group.of(method).final("saturated_share"))),
        )
        for name, group in groups.items()
        for method in methods_of({name: group.runs for name, group in groups.items()})
    )
    return Table(
        name="at_the_end",
        caption="Inside the network at the end of the last stage; mean ± standard deviation over seeds. AID's dormant "
        "ratio is 0 by construction.",
        header=("problem", "method", *(quantity.title for quantity in QUANTITIES), "n"),
        rows=rows,
    )
