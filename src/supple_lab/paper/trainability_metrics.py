"""What the paper claims of the numbers inside the networks of its trainability runs (appendix G.1.2)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from supple.metrics.base import Metric
from supple.metrics.rank import EffectiveRank
from supple.metrics.units import DormantRatio, SaturatedShare, SignEntropy
from supple_lab.paper import trainability
from supple_lab.paper.claims import words_of
from supple_lab.paper.compare import (
    Chosen,
    chosen,
    label_of,
    methods_of,
    selection_notes,
    shown,
    stage_curves,
    stage_label,
    times,
)
from supple_lab.paper.fresh import LOST, VANILLA, claim_lost, ends, fresh_accuracy, reference, stand_in_notes
from supple_lab.paper.groups import in_each, provided, under_both
from supple_lab.paper.rules import claim_decline, claims_above
from supple_lab.paper.study import Condition, Study, StudyOptions
from supple_lab.paper.tables.search_space import ADAM_HIGH
from supple_lab.paper.trainability import HALF, SELECTED_BY
from supple_lab.report.figure import ClaimRow, Figure, Panel, StudyReport, Table
from supple_lab.report.verdict import Words, claim_above, claim_below, claim_difference_above, claim_difference_below
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

    runs: Chosen
    references: Results

    def of(self, method: str) -> Results:
        """The method's runs; none where it was not run."""
        return self.runs.of(method)

    def fresh(self, metric: str) -> Sample:
        """What a fresh vanilla network comes to, a number a seed."""
        return fresh_accuracy(self.references, self.of("vanilla"), metric)

    def below(self, method: str, metric: str) -> Sample:
        """How far a method ends below a fresh vanilla network, seed by seed."""
        return self.fresh(metric).minus(ends(self.of(method), metric))


Groups = Mapping[str, Group]  # by problem, as it is called
NOTHING = Group(Chosen({}), Results(()))


def claims(groups: Groups) -> tuple[ClaimRow, ...]:
    """All of them, in the paper's order."""
    return (
        dropout_has_no_effect(groups),
        dropout_helps_permuted_slightly(groups),
        aid_prevents_saturation(groups),
        aid_above_throughout(groups, "sign_entropy", words_of("aid_keeps_sign_entropy")),
        aid_above_throughout(groups, "srank", words_of("aid_keeps_effective_rank")),
        ranks_decline(groups),
    )


def dropout_has_no_effect(groups: Groups) -> ClaimRow:
    """If vanilla has lost its plasticity on random labels: is Dropout less than five points better in each number?"""
    words, group = words_of("dropout_has_no_effect_on_random_labels"), groups.get(RANDOM, NOTHING)
    vanilla, dropout = (group.of(method) for method in OTHERS)
    accuracies = {
        f"{name}, last tenth": ends(dropout, metric).minus(ends(vanilla, metric)) for name, metric in READINGS.items()
    }
    better = {
        **accuracies,
        "saturated share": vanilla.final("saturated_share").minus(dropout.final("saturated_share")),
        "sign entropy": dropout.final("sign_entropy").minus(vanilla.final("sign_entropy")),
    }
    rows = {
        name: claim_below(sample, LOST, quantity=f"{name}, Dropout better than ReLU by", **words)
        for name, sample in better.items()
    }
    losses = {
        f"ReLU has lost its plasticity by {name}": claim_lost(ends(vanilla, metric), group.fresh(metric), **words)
        for name, metric in READINGS.items()
    }
    return provided(in_each(rows, words), losses)


def dropout_helps_permuted_slightly(groups: Groups) -> ClaimRow:
    """If vanilla ends below a fresh network on permuted pixels: does Dropout make up for some of it, but not half?"""
    words, group = words_of("dropout_helps_permuted_only_slightly"), groups.get(PERMUTED, NOTHING)
    below = f"last tenth below {VANILLA}"

    def helps_slightly(metric: str) -> ClaimRow:
        vanilla, dropout = (group.below(method, metric) for method in OTHERS)
        half = times(vanilla, HALF)
        rows = {
            "it helps": claim_difference_above(vanilla, dropout, quantity=f"{below}, ReLU minus Dropout", **words),
            "slightly": claim_difference_above(dropout, half, quantity=f"{below}, Dropout minus half of ReLU", **words),
        }
        loss = claim_above(vanilla.of_seeds(dropout.seeds), 0.0, quantity=f"{below}, ReLU", **words)
        return provided(in_each(rows, words), {"there is a loss": loss})

    return under_both({name: helps_slightly(metric) for name, metric in READINGS.items()}, words)


def aid_prevents_saturation(groups: Groups) -> ClaimRow:
    """Are fewer of AID's units saturated than of each of the other two, on both problems?"""
    words = words_of("aid_prevents_saturation")
    rows = {
        f"{name} against {label_of(other)}": claim_difference_below(
            group.of("aid").final("saturated_share"),
            group.of(other).final("saturated_share"),
            quantity="saturated share, AID minus the other",
            **words,
        )
        for name, group in groups.items()
        for other in OTHERS
    }
    return in_each(rows, words)


def aid_above_throughout(groups: Groups, metric: str, words: Words) -> ClaimRow:
    """The claim that AID's number is above each of the other two in each quarter of the stages, on both problems."""
    rows = {
        f"{name} against {label_of(other)} ({quarter})": row
        for name, group in groups.items()
        for other in OTHERS
        for quarter, row in claims_above(
            group.of("aid"), group.of(other), metric, quantity="AID minus the other", words=words
        ).items()
    }
    return in_each(rows, words)


def ranks_decline(groups: Groups) -> ClaimRow:
    """Do the ranks of vanilla and of Dropout end below nine tenths of what they were after the first stage?"""
    words = words_of("vanilla_and_dropout_ranks_decline")
    rows = {
        f"{label_of(method)} on {name}": claim_decline(
            group.of(method), "srank", quantity="effective rank", words=words
        )
        for name, group in groups.items()
        for method in OTHERS
    }
    return in_each(rows, words)


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

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        return tuple(one for cell in cells(order) for one in (cell, reference(cell, order)))

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        groups = {cell.experiment.replace("_", " "): group_of(results, cell, order) for cell in cells(order)}
        return StudyReport(
            figures=(figure(groups),),
            tables=(table(groups),),
            claims=claims(groups),
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
            *(shown(at_the_end(group, method, q.metric)) for q in QUANTITIES),
            number(group, method),
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


def at_the_end(group: Group, method: str, metric: str) -> Sample:
    """The number at the last stage, one a run."""
    return group.of(method).final(metric)


def number(group: Group, method: str) -> str:
    """How many runs ended."""
    return str(len(at_the_end(group, method, "saturated_share")))
