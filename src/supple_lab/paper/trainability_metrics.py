"""Trainability metrics (appendix G.1.2): what changes inside the networks of the trainability runs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

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
    declines,
    final,
    last_tenth,
    quarter_mean,
    shortfall,
    words_for,
)
from supple_lab.paper.compare import BAND, label_of, sample_table, stage_panel
from supple_lab.paper.method_runs import (
    Groups,
    MethodRuns,
    in_quarters,
    method_by_method,
    methods_of,
    reference,
    selection_notes,
    stand_in_notes,
)
from supple_lab.paper.study import Condition, Scale, Study, StudyOptions
from supple_lab.paper.tables import ADAM_HIGH
from supple_lab.paper.trainability import HALF
from supple_lab.report.figure import Figure, StudyReport, Table
from supple_lab.results.results import Results
from supple_lab.scenarios.permuted_input import PermutedInput
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.spec import Supervised

RANDOM, PERMUTED = "random label", "permuted input"
READINGS = {"online accuracy": "online_accuracy", "accuracy at the end of a stage": "train_accuracy"}
OTHERS = ("vanilla", "dropout")


def fresh(metric: str) -> Number:
    return Number(f"{words_for(metric)} of a fresh vanilla network", lambda runs: runs.fresh(metric))


def rivals(groups: Groups) -> dict[str, MethodRuns]:
    """AID beside each of the two on each problem."""
    return method_by_method(groups, *OTHERS, name="{group} against {method}", role="other")


def above_throughout(key: str, metric: str, paper: str, claim: str) -> Claim:
    return Claim(
        key=key,
        paper=paper,
        claim=claim,
        rule=Each(
            "the other being vanilla and Dropout, in each quarter of the stages on both problems, each by its own "
            "interval",
            lambda groups: in_quarters(rivals(groups), measured=metric),
            Above(quarter_mean(metric, "aid") - quarter_mean(metric, "other")),
        ),
    )


# Dropout is less than five points better than a vanilla network that has lost its plasticity, in each number.
BETTER = {
    **{
        f"{name}, last tenth": last_tenth("dropout", metric) - last_tenth("vanilla", metric)
        for name, metric in READINGS.items()
    },
    "saturated share": final("saturated_share", "vanilla") - final("saturated_share", "dropout"),
    "sign entropy": final("sign_entropy", "dropout") - final("sign_entropy", "vanilla"),
}
NO_EFFECT = OnlyIf(
    {
        f"ReLU has lost its plasticity by {name}": Lost(last_tenth("vanilla", metric), fresh(metric))
        for name, metric in READINGS.items()
    },
    All({name: Below(difference, LOST) for name, difference in BETTER.items()}),
)
VANILLA, DROPOUT = shortfall("vanilla"), shortfall("dropout")
HELPS_SLIGHTLY = OnlyIf(
    {"there is a loss": Above(VANILLA.in_seeds_of(DROPOUT))},
    All({"it helps": Above(VANILLA - DROPOUT), "slightly": Above(DROPOUT - HALF * VANILLA)}),
)
CLAIMS = (
    Claim(
        key="dropout_has_no_effect_on_random_labels",
        paper="Dropout had no effect on random label MNIST.",
        claim="On random labels Dropout does nothing against the loss of plasticity.",
        rule=Computed(
            f"{NO_EFFECT.text}, on random labels",
            lambda groups: NO_EFFECT.decide(groups.get(RANDOM, MethodRuns()), "paper"),
            NO_EFFECT.caveats,
        ),
    ),
    Claim(
        key="dropout_helps_permuted_only_slightly",
        paper="Dropout provided only a slight improvement in permuted MNIST.",
        claim="On permuted MNIST Dropout makes up for some of the vanilla network's loss, and for less than half.",
        rule=Agree(
            "on permuted pixels, by both accuracies",
            lambda groups: {
                name: replace(groups.get(PERMUTED, MethodRuns()), metric=metric) for name, metric in READINGS.items()
            },
            HELPS_SLIGHTLY,
        ),
    ),
    Claim(
        key="aid_prevents_saturation",
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
        paper="The effective ranks of the vanilla and the Dropout network rapidly decline.",
        claim="The effective ranks of the vanilla and the Dropout network decline.",
        rule=Each(
            "for vanilla and Dropout on both problems",
            lambda groups: method_by_method(groups, *OTHERS, name="{method} on {group}"),
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


class Quantity(NamedTuple):
    """A number of the network and how it is drawn."""

    metric: str
    title: str
    y_label: str
    y_range: tuple[float, float] | None = (0.0, 1.02)


QUANTITIES = (
    Quantity("dormant_ratio", "dormant units", "dormant units (share)"),
    Quantity("saturated_share", "saturated units", "saturated units (share)"),
    Quantity("sign_entropy", "sign entropy", "sign entropy"),
    Quantity("srank", "effective rank", "effective rank", y_range=None),
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
SCALE_NOTES: Mapping[Scale, tuple[str, ...]] = {
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
    section = "G.1.2 Analysis of Metrics Contributing to Plasticity Loss"
    claims = CLAIMS

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        return tuple(one for cell in cells(order) for one in (cell, reference(cell, order)))

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        groups = {
            cell.experiment.replace("_", " "): trainability.runs_of(results, cell, order) for cell in cells(order)
        }
        figure = Figure(
            name="trainability_metrics",
            caption=f"Inside the network at the end of a stage, in evaluation mode, with Adam 1e-3; {BAND} AID's "
            "dormant ratio is 0 by construction: read the saturated share.",
            panels=tuple(
                stage_panel(
                    f"{name}: {quantity.title}",
                    group.by_method,
                    quantity.metric,
                    y_label=quantity.y_label,
                    y_range=quantity.y_range,
                )
                for name, group in groups.items()
                for quantity in QUANTITIES
            ),
            columns=len(QUANTITIES),
        )
        return StudyReport(
            figures=(figure,),
            tables=(table(groups),),
            claims=self.decided(groups, order),
            notes=(
                *SCALE_NOTES.get(order.scale, ()),
                CAVEAT,
                ENTROPY,
                *selection_notes(groups),
                *stand_in_notes(groups),
            ),
        )


def cells(order: StudyOptions) -> tuple[Condition, ...]:
    return tuple(measured(problem, order) for problem in ("random_label", "permuted_input"))


def measured(problem: str, order: StudyOptions) -> Condition:
    """The cell of the trainability grid, with what is measured inside the network."""
    cell = trainability.condition(problem, ADAM_HIGH, order)
    scenario = QUICK[problem] if order.scale == "quick" else trainability.SCENARIOS.at(order.scale)[problem]
    every = EVERY[problem] if order.scale == "paper" else 1
    watched = Supervised(
        scenario=scenario, dataset=trainability.DATASETS.at(order.scale), metrics=METRICS, metrics_every=every
    )
    return replace(cell, problem=watched, methods=METHODS)


def table(groups: Groups) -> Table:
    numbers = {
        quantity.title: lambda name, method, metric=quantity.metric: groups[name].of(method).final(metric)
        for quantity in QUANTITIES
    }
    return sample_table(
        "at_the_end",
        "Inside the network at the end of the last stage; mean ± standard deviation over seeds. AID's dormant ratio is "
        "0 by construction.",
        rows=[(name, method) for name in groups for method in methods_of(groups)],
        columns={
            "problem": lambda name, method: name,
            "method": lambda name, method: label_of(method),
            **numbers,
            "n": lambda name, method: len(groups[name].of(method).final("saturated_share")),
        },
    )
