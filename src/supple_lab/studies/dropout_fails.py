"""Why Dropout fails (section 3, Figure 2): its subnetworks lose their plasticity, and so does the network they form.

Left: how much accuracy a network of 8 layers has lost since the first labels. Middle: what copies of it under fixed
masks come to on labels of their own. Right: cold and warm starts; those runs and the claims on them are warm_start's.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from supple_lab.data.base import Dataset
from supple_lab.data.digits import Digits
from supple_lab.data.mnist import MNIST
from supple_lab.models.mlp import MLP
from supple_lab.report.figure import ClaimRow, Drawing, Figure, Table
from supple_lab.report.intervals import mean_and_std
from supple_lab.report.panel import Bars, Curve, Estimate, Level, Panel
from supple_lab.report.results import Results
from supple_lab.report.sample import Sample
from supple_lab.report.verdict import claim_above, claim_difference_above
from supple_lab.runs.problem import Supervised
from supple_lab.runs.spec import RunSpec
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.studies import warm_start
from supple_lab.studies.base import Study
from supple_lab.studies.by_seed import by_seed
from supple_lab.studies.chosen import chosen
from supple_lab.studies.comparison import final_accuracy, shown
from supple_lab.studies.condition import Condition
from supple_lab.studies.decide import beside_the_paper, words_of
from supple_lab.studies.fall import FIVE_POINTS, LEARNED, beginnings, claim_kept, ends, falls
from supple_lab.studies.groups import in_each
from supple_lab.studies.labels import label_of
from supple_lab.studies.order import Order
from supple_lab.studies.scale_notes import slim_settings, sources, unsearched

NETWORK, SUBNETWORKS = "train_accuracy", "subnetwork_accuracy"
MODELS = {
    "smoke": MLP(width=16, num_hidden=7),
    "quick": MLP(width=128, num_hidden=7),
    "paper": MLP(width=512, num_hidden=7),
}
DATASETS: dict[str, Dataset] = {"smoke": Digits(), "quick": Digits(), "paper": MNIST()}
SCENARIOS = {
    "smoke": RandomLabel(num_stages=2, epochs=1, num_images=128),
    "quick": RandomLabel(num_stages=12, epochs=20, num_images=1400),
    "paper": RandomLabel(num_stages=50, epochs=100, num_images=1400),
}
NUM_SUBNETWORKS = {"smoke": 2, "quick": 2, "paper": 10}
SCALE_NOTES = {
    "smoke": ("Smoke scale: tiny networks for a few steps show that everything runs; the numbers mean nothing.",),
    "quick": (
        "Quick scale, not the paper's protocol: digits of 8x8 pixels in place of MNIST, 7 x 128 hidden units in place "
        "of 7 x 512, 12 labellings of 20 epochs in place of 50 of 100, 2 subnetworks in place of 10; a slim ResNet-18 "
        "on 200 digits in place of CIFAR-100.",
    ),
    "paper": (
        "Where the paper is silent: 8 layers are 7 of 512 hidden units and the output; batches of 64. Subnetworks are "
        "drawn at the end of each stage, as the text and the appendix say, not after each epoch, as the caption does; "
        "each has one fixed mask and a fresh optimizer.",
    ),
}
Variants = Mapping[str, Results]  # by what they are called: Dropout comes at several rates


class DropoutFails(Study):
    """Dropout at several rates beside ReLU and AID: the network, its subnetworks, its warm start."""

    name = "dropout_fails"
    title = "Why Dropout fails: its subnetworks lose their plasticity, too"
    question = (
        "Dropout trains an ensemble of subnetworks. If each of them loses the ability to learn, their sum cannot keep "
        "it. Does more Dropout make it worse, and what of AID?"
    )

    def conditions(self, order: Order) -> tuple[Condition, ...]:
        return network_condition(order), *warm_start.conditions(order).values()

    def draw(self, results: Results, order: Order) -> Drawing:
        variants = variants_of(network_condition(order).of(results, order))
        starts = starts_of(results, order)
        return Drawing(
            figures=(
                Figure(
                    name="dropout_fails",
                    caption="The network: accuracy at the end of a stage minus that of the first. Its subnetworks: "
                    "mean accuracy of subnetworks drawn at the end of each stage and trained on labels of their own. "
                    "Line: mean over seeds, band: one standard deviation. Cold and warm start: final test accuracy "
                    "from both, with one standard deviation.",
                    panels=(degradation_panel(variants), subnetwork_panel(variants), start_panel(starts)),
                ),
            ),
            tables=(fall_table(variants), beside_the_paper(warm_start.gap_table(starts), order)),
            claims=(more_dropout_falls_further(variants), subnetworks_fall_too(variants), aid_keeps(variants)),
            notes=(
                *SCALE_NOTES[order.scale],
                *warm_start_note(order),
                *sources(order, "dropout_fails", "warm_start"),
                *unsearched(order, self.conditions(order)),
                "The claims on the warm start are decided by the study warm_start, from the same runs.",
                *starts.cold.notes,
                *starts.warm.notes,
            ),
        )


def network_condition(order: Order) -> Condition:
    """Random labels for the network of 8 layers, with its subnetworks."""
    return Condition(
        label="random labels, 8 layers",
        problem=Supervised(
            scenario=SCENARIOS[order.scale],
            dataset=DATASETS[order.scale],
            subnetworks=NUM_SUBNETWORKS[order.scale],
        ),
        model=MODELS[order.scale],
        experiment="dropout_fails",
        case="mlp",
    )


def warm_start_note(order: Order) -> tuple[str, ...]:
    """What the networks of the warm start are trained with at quick scale."""
    told = slim_settings(order, warm_start.conditions(order).values())
    return (f"Warm start: {told}",) if order.scale == "quick" else ()


def starts_of(results: Results, order: Order) -> warm_start.Starts:
    """The runs of warm_start."""
    by_start = {
        start: chosen(results, condition, order=order, metric="test_accuracy", rule="final")
        for start, condition in warm_start.conditions(order).items()
    }
    return warm_start.Starts(cold=by_start["cold"], warm=by_start["warm"])


def variants_of(results: Results) -> Variants:
    """The runs by method and drop rate."""
    return results.group_by(variant_label)


def variant_label(spec: RunSpec) -> str:
    """What a variant is called."""
    rate = rate_of(spec)
    return f"Dropout {rate:g}" if rate else label_of(spec.method.name)


def rate_of(spec: RunSpec) -> float | None:
    """The drop rate: 0 for the vanilla network, none for a method that is neither."""
    return 0.0 if spec.method.name == "vanilla" else getattr(spec.method, "drop_positive", None)


def degradation_panel(variants: Variants) -> Panel:
    """Accuracy at the end of each stage minus that of the first."""
    curves = tuple(
        replace(curve, values=curve.values - curve.values[:, :1]) for curve in variant_curves(variants, NETWORK)
    )
    return Panel(
        title="The network",
        x_label="stage",
        y_label="accuracy − accuracy at stage 1",
        curves=curves,
        levels=(Level(label="no loss", value=0.0),),
    )


def subnetwork_panel(variants: Variants) -> Panel:
    """What subnetworks come to."""
    return Panel(
        title="Its subnetworks",
        x_label="stage",
        y_label="mean accuracy on new labels",
        curves=variant_curves(variants, SUBNETWORKS),
        levels=(Level(label="chance", value=0.1),),
        y_range=(0.0, 1.02),  # room for a marker at 1
    )


def variant_curves(variants: Variants, metric: str) -> tuple[Curve, ...]:
    """A metric over the stages, one line a variant."""
    return tuple(
        Curve(
            method=results.runs[0].spec.method.name,
            label=label,
            x=results.stages(metric) + 1,
            values=results.matrix(metric),
            band="deviation",
        )
        for label, results in variants.items()
        if results.drawn and len(results.stages(metric))
    )


def start_panel(starts: warm_start.Starts) -> Bars:
    """Final test accuracy from both starts."""
    arms = {method: (starts.cold.of(method), starts.warm.of(method)) for method in starts.methods()}
    return Bars(
        title="Cold and warm start",
        x_label="",
        y_label="final test accuracy",
        positions=("cold start", "warm start"),
        bars=tuple(start_bar(arms[method]) for method in arms if any(arm.ended for arm in arms[method])),
    )


def start_bar(arms: tuple[Results, Results]) -> Estimate:
    """One method's accuracies; no bar where a run diverged or none ended."""
    spec, samples = next(run.spec for arm in arms for run in arm.ended), [final_accuracy(arm) for arm in arms]
    numbers = [mean_and_std(sample.values) if len(sample) else (np.nan, np.nan) for sample in samples]
    means, deviations = np.array(numbers).T
    return Estimate(
        method=spec.method.name,
        label=variant_label(spec),
        x=np.arange(len(samples)),
        middle=means,
        low=means - deviations,
        high=means + deviations,
        n=max(map(len, samples)),
        edges=("mean − std", "mean + std"),
    )


def fall_table(variants: Variants) -> Table:
    """First stage, last stage and fall of the network and of its subnetworks."""
    rows = tuple(
        (
            label,
            *(
                shown(sample)
                for metric in (NETWORK, SUBNETWORKS)
                for sample in (results.first(metric), results.final(metric), falls(results, metric))
            ),
            str(len(results.ended)),
        )
        for label, results in variants.items()
    )
    return Table(
        name="falls",
        caption="Accuracy at the first and the last stage, and the fall from the first tenth of the stages to the "
        "last; mean ± standard deviation over seeds.",
        header=(
            "variant",
            *("first", "last", "fall"),
            *("subnetworks, first", "subnetworks, last", "subnetworks, fall"),
            "n",
        ),
        rows=rows,
    )


def falls_by_rate(variants: Variants, metric: str) -> dict[float, Sample]:
    """The falls of the vanilla network and of each Dropout network, by rising rate."""
    rates = {rate_of(results.runs[0].spec): results for results in variants.values()}
    return {rate: falls(rates[rate], metric) for rate in sorted(rate for rate in rates if rate is not None)}


def slope(by_rate: Mapping[float, Sample]) -> Sample:
    """How much further the accuracy falls per unit of the drop rate, by least squares; none from a single rate."""
    if len(by_rate) < 2:
        return Sample(values=np.array([]), seeds=(), runs=())
    centred = np.array(list(by_rate)) - np.mean(list(by_rate))
    return by_seed(list(by_rate.values()), lambda values: float(centred @ values / (centred @ centred)))


def more_dropout_falls_further(variants: Variants) -> ClaimRow:
    """Does the fall grow with the drop rate?"""
    growth = slope(falls_by_rate(variants, NETWORK))
    return claim_above(growth, 0.0, quantity="slope of the fall", **words_of("more_dropout_falls_further"))


def subnetworks_fall_too(variants: Variants) -> ClaimRow:
    """Do subnetworks fall at the highest rate, and the further the higher the rate?"""
    words, by_rate = words_of("subnetworks_fall_too"), falls_by_rate(variants, SUBNETWORKS)
    dropped = [sample for rate, sample in by_rate.items() if rate > 0.0]
    highest = dropped[-1] if dropped else Sample(values=np.array([]), seeds=(), runs=())
    rows = {
        "the fall at the highest rate": claim_above(highest, FIVE_POINTS, quantity="fall", **words),
        "its slope over the rates": claim_above(slope(by_rate), 0.0, quantity="slope", **words),
    }
    return in_each(rows, words)


def aid_keeps(variants: Variants) -> ClaimRow:
    """Do AID's network and its subnetworks keep their plasticity, and end as high as vanilla began, above chance?"""
    words = words_of("aid_subnetworks_keep")
    aid, vanilla = (variants.get(label_of(method), Results(())) for method in ("aid", "vanilla"))
    rows = {}
    for name, metric in (("the network", NETWORK), ("its subnetworks", SUBNETWORKS)):
        rows[f"something to keep: {name}"] = claim_above(
            beginnings(vanilla, metric), LEARNED, quantity="vanilla's first tenth", **words
        )
        rows[f"fall of {name}"] = claim_kept(falls(aid, metric), falls(vanilla, metric), **words)
        rows[f"level of {name}"] = claim_difference_above(
            ends(aid, metric),
            beginnings(vanilla, metric),
            -FIVE_POINTS,
            quantity="last tenth minus vanilla's first",
            **words,
        )
    return in_each(rows, words)
