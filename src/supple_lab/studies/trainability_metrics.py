"""Trainability metrics (appendix G.1.2): what happens inside the networks that stop learning?"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from supple.metrics.base import Metric
from supple.metrics.dormant import DormantRatio
from supple.metrics.effective_rank import EffectiveRank
from supple.metrics.saturation import SaturatedShare
from supple.metrics.sign_entropy import SignEntropy
from supple_lab.report.figure import ClaimRow, Drawing, Figure, Table
from supple_lab.report.panel import Panel
from supple_lab.report.results import Results
from supple_lab.report.sample import Sample
from supple_lab.report.verdict import Words, claim_above, claim_below, claim_difference_above, claim_difference_below
from supple_lab.runs.problem import Supervised
from supple_lab.scenarios.permuted_input import PermutedInput
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.studies import trainability
from supple_lab.studies.base import Study
from supple_lab.studies.chosen import Chosen, chosen
from supple_lab.studies.comparison import methods_of, selection_notes, shown
from supple_lab.studies.condition import Condition
from supple_lab.studies.decide import words_of
from supple_lab.studies.fall import FIVE_POINTS, falls
from supple_lab.studies.groups import in_each
from supple_lab.studies.hyperparameters.search_space import ADAM_HIGH
from supple_lab.studies.labels import label_of
from supple_lab.studies.order import Order
from supple_lab.studies.stage_curves import stage_curves, stage_label
from supple_lab.studies.trainability_grid import RANDOM_LABEL, SELECTED_BY

METHODS = ("vanilla", "dropout", "aid")
ACCURACY = RANDOM_LABEL.metric
METRICS: tuple[Metric, ...] = (DormantRatio(), SaturatedShare(), SignEntropy(), EffectiveRank())
# At paper scale the rank of 2,000 units takes as long as several stages of permuted pixels and a part of one of random
# labels; so about a hundred values of each. Smaller networks are measured at every stage.
EVERY = {"permuted_input": 10, "random_label": 2}
QUICK = {
    "permuted_input": PermutedInput(num_stages=200, batch_size=16),
    "random_label": RandomLabel(num_stages=15, epochs=40),
}
Groups = Mapping[str, Chosen]  # by problem, as it is called


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

    def conditions(self, order: Order) -> tuple[Condition, ...]:
        return tuple(measured(problem, order) for problem in ("random_label", "permuted_input"))

    def draw(self, results: Results, order: Order) -> Drawing:
        groups = {
            condition.experiment.replace("_", " "): chosen(
                results, condition, order=order, metric=SELECTED_BY[condition.experiment], rule="stage_mean"
            )
            for condition in self.conditions(order)
        }
        return Drawing(
            figures=(figure(groups),),
            tables=(table(groups),),
            claims=(
                dropout_has_no_effect(groups),
                aid_prevents_saturation(groups),
                aid_keeps_sign_entropy(groups),
                aid_keeps_effective_rank(groups),
            ),
            notes=(*SCALE_NOTES[order.scale], CAVEAT, ENTROPY, *selection_notes(groups)),
        )


def measured(problem: str, order: Order) -> Condition:
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


def panel(name: str, group: Chosen, quantity: Quantity) -> Panel:
    """One number on one problem."""
    return Panel(
        title=f"{name}: {quantity.title}",
        x_label=stage_label(group.by_method, quantity.metric),
        y_label=quantity.title + (" (share)" if quantity.metric.endswith(("ratio", "share")) else ""),
        curves=stage_curves(group.by_method, quantity.metric),
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
        for method in methods_of(groups)
    )
    return Table(
        name="at_the_end",
        caption="Inside the network at the end of the last stage; mean ± standard deviation over seeds. AID's dormant "
        "ratio is 0 by construction.",
        header=("problem", "method", *(quantity.title for quantity in QUANTITIES), "n"),
        rows=rows,
    )


def at_the_end(group: Chosen, method: str, metric: str) -> Sample:
    """The number at the last stage, one a run."""
    return group.of(method).final(metric)


def number(group: Chosen, method: str) -> str:
    """How many runs ended."""
    return str(len(at_the_end(group, method, "saturated_share")))


def dropout_has_no_effect(groups: Groups) -> ClaimRow:
    """Does vanilla fall on random labels, and is Dropout less than five points better, by accuracy and inside?"""
    words, group = words_of("dropout_has_no_effect_on_random_labels"), groups.get("random label", Chosen({}))
    vanilla, dropout = (group.of(method) for method in ("vanilla", "dropout"))
    better = {
        "fall of the accuracy": falls(vanilla, ACCURACY).minus(falls(dropout, ACCURACY)),
        "saturated share": vanilla.final("saturated_share").minus(dropout.final("saturated_share")),
        "sign entropy": dropout.final("sign_entropy").minus(vanilla.final("sign_entropy")),
    }
    lost = claim_above(falls(vanilla, ACCURACY), FIVE_POINTS, quantity="fall of ReLU's accuracy", **words)
    rows = {
        name: claim_below(sample, FIVE_POINTS, quantity=f"{name}, Dropout better than ReLU by", **words)
        for name, sample in better.items()
    }
    return in_each({"there is a loss": lost, **rows}, words)


def aid_prevents_saturation(groups: Groups) -> ClaimRow:
    """Are fewer of AID's units saturated than of each of the other two, on both problems?"""
    words = words_of("aid_prevents_saturation")
    rows = {
        f"{name} against {label_of(other)}": claim_difference_below(
            at_the_end(group, "aid", "saturated_share"),
            at_the_end(group, other, "saturated_share"),
            quantity="saturated share, AID minus the other",
            **words,
        )
        for name, group in groups.items()
        for other in ("vanilla", "dropout")
    }
    return in_each(rows, words)


def aid_keeps_sign_entropy(groups: Groups) -> ClaimRow:
    """Do AID's units change sign more than those of each of the other two, on both problems?"""
    return aid_above(groups, "sign_entropy", words_of("aid_keeps_sign_entropy"))


def aid_keeps_effective_rank(groups: Groups) -> ClaimRow:
    """Have AID's features a higher rank than those of each of the other two, on both problems?"""
    return aid_above(groups, "srank", words_of("aid_keeps_effective_rank"))


def aid_above(groups: Groups, metric: str, words: Words) -> ClaimRow:
    """The claim that AID's number at the last stage is above each of the other two, on both problems."""
    rows = {
        f"{name} against {label_of(other)}": claim_difference_above(
            at_the_end(group, "aid", metric),
            at_the_end(group, other, metric),
            quantity="AID minus the other",
            **words,
        )
        for name, group in groups.items()
        for other in ("vanilla", "dropout")
    }
    return in_each(rows, words)
