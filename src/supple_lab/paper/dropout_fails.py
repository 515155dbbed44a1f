"""Why Dropout fails (section 3, Figure 2): its subnetworks lose their plasticity, and so does the network they form.

Left: how much accuracy a network of 8 layers has lost since the first labels. Middle: what copies of it under fixed
masks come to on labels of their own. Right: cold and warm starts; those runs and the claims on them are warm_start's.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from supple_lab.data.base import Dataset
from supple_lab.data.digits import Digits
from supple_lab.data.idx import MNIST
from supple_lab.models.mlp import MLP
from supple_lab.paper import warm_start
from supple_lab.paper.claims import Above, Agree, All, Claim, Computed, Each, Kept, Lost, Number, by_seed
from supple_lab.paper.compare import beside_the_paper, final_accuracy, label_of, shown
from supple_lab.paper.fresh import ends, fresh_accuracy, reference, stand_in_notes
from supple_lab.paper.notes import slim_settings, sources, unsearched
from supple_lab.paper.study import Condition, Study, StudyOptions
from supple_lab.report.figure import Bars, Curve, Estimate, Figure, Level, Panel, StudyReport, Table
from supple_lab.results.intervals import mean_and_std
from supple_lab.results.results import Results, Sample
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.spec import RunSpec, Supervised

NETWORK, ONLINE, SUBNETWORKS = "train_accuracy", "online_accuracy", "subnetwork_accuracy"
READINGS = {"online": ONLINE, "at the end of a stage": NETWORK}  # the accuracies of the network that may be the paper's
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


class Runs(NamedTuple):
    """The runs by variant, the fresh vanilla networks, and the metric that a claim is about."""

    variants: Variants
    references: Results
    metric: str = NETWORK

    def by_reading(self) -> "dict[str, Runs]":
        """The same by each of the accuracies that may be the paper's."""
        return {reading: self._replace(metric=metric) for reading, metric in READINGS.items()}

    def end(self, method: str) -> Sample:
        """The last tenth of a method that comes in one variant."""
        return ends(of_method(self.variants, method), self.metric)

    def fresh(self) -> Sample:
        """What a fresh vanilla network comes to; subnetworks are measured by the network."""
        metric = NETWORK if self.metric == SUBNETWORKS else self.metric
        return fresh_accuracy(self.references, of_method(self.variants, "vanilla"), metric)

    def highest(self) -> Sample:
        """The last tenth at the highest rate."""
        rates = {rate_of(results.runs[0].spec) or 0.0: results for results in self.variants.values()}
        return ends(rates[max(rates)] if any(rates) else Results(()), self.metric)


def rate_of(spec: RunSpec) -> float | None:
    """The drop rate: 0 for the vanilla network, none for a method that is neither."""
    return 0.0 if spec.method.name == "vanilla" else getattr(spec.method, "drop_positive", None)


def of_method(variants: Variants, method: str) -> Results:
    """The runs of a method that comes in one variant; none if it was not run."""
    return variants.get(label_of(method), Results(()))


def losses_by_rate(variants: Variants, metric: str) -> dict[float, Sample]:
    """First stage minus the mean over the stages, of the vanilla and of each Dropout network, by rising rate.

    The first stage is that of a fresh network with the same masks, so that what masks cost does not count; the mean
    over all stages is the lower, the earlier a network collapses.
    """
    rates = {rate_of(results.runs[0].spec): results for results in variants.values()}
    return {
        rate: rates[rate].first(metric).minus(rates[rate].stage_mean(metric))
        for rate in sorted(rate for rate in rates if rate is not None)
    }


def slope(by_rate: Mapping[float, Sample]) -> Sample:
    """How much more accuracy is lost per unit of the drop rate, by least squares; none from a single rate."""
    if len(by_rate) < 2:
        return Sample(values=np.array([]), seeds=(), runs=())
    centred = np.array(list(by_rate)) - np.mean(list(by_rate))
    return by_seed(list(by_rate.values()), lambda values: float(centred @ values / (centred @ centred)))


SLOPE = Above(
    Number(
        "slope over the drop rates, vanilla as 0, of the first stage minus the mean over the stages",
        lambda runs: slope(losses_by_rate(runs.variants, runs.metric)),
    )
)
FRESH = Number("accuracy of a fresh vanilla network", Runs.fresh)
AID_KEEPS = Kept(Number("last tenth of AID", lambda runs: runs.end("aid")), FRESH)


def subnetworks(runs: Runs) -> dict[str, Runs]:
    """What is asked of the subnetworks."""
    return {"": runs._replace(metric=SUBNETWORKS)}


SECTION = "3.1 Trainability Perspective"
CLAIMS = (
    Claim(
        key="more_dropout_falls_further",
        section=SECTION,
        paper="The higher the Dropout probability, the more an 8-layer MLP loses on random labels.",
        claim="The higher the drop rate, the more accuracy is lost.",
        rule=Agree("by both accuracies", Runs.by_reading, SLOPE),
    ),
    Claim(
        key="subnetworks_fall_too",
        section=SECTION,
        paper="10 subnetworks sampled after each task learn new tasks ever worse, more so at higher rates.",
        claim="Subnetworks of a Dropout network lose their plasticity, too.",
        rule=Each(
            "of the subnetworks",
            subnetworks,
            {
                "the highest rate": Lost(Number("last tenth at the highest rate", Runs.highest), FRESH),
                "slope over the rates": SLOPE,
            },
        ),
    ),
    Claim(
        key="aid_subnetworks_keep",
        section=SECTION,
        paper="AID maintains trainability across all tasks.",
        claim="AID's network and its subnetworks keep their plasticity.",
        rule=All(
            {
                "the network": Agree("by both accuracies", Runs.by_reading, AID_KEEPS),
                "its subnetworks": Computed(
                    f"{AID_KEEPS.text}, of its subnetworks",
                    lambda runs: AID_KEEPS.decide(runs._replace(metric=SUBNETWORKS), "paper"),
                ),
            }
        ),
    ),
)


class DropoutFails(Study):
    """Dropout at several rates beside ReLU and AID: the network, its subnetworks, its warm start."""

    name = "dropout_fails"
    title = "Why Dropout fails: its subnetworks lose their plasticity, too"
    question = (
        "Dropout trains an ensemble of subnetworks. If each of them loses the ability to learn, their sum cannot keep "
        "it. Does more Dropout make it worse, and what of AID?"
    )
    claims = CLAIMS

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        network = network_condition(order)
        return network, reference(network, order), *warm_start.conditions(order).values()

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        variants: Variants = network_condition(order).of(results, order).group_by(variant_label)  # and drop rate
        references = reference(network_condition(order), order).of(results, order)
        starts = warm_start.starts_of(results, order)
        settings = slim_settings(order, warm_start.conditions(order).values())
        return StudyReport(
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
            tables=(loss_table(variants, references), beside_the_paper(warm_start.gap_table(starts), order)),
            claims=self.decided(Runs(variants, references), order),
            notes=(
                *SCALE_NOTES[order.scale],
                *((f"Warm start: {settings}",) if order.scale == "quick" else ()),
                *sources(order, "dropout_fails", "warm_start"),
                *unsearched(order, self.conditions(order)),
                "The claims on the warm start are decided by the study warm_start, from the same runs.",
                *starts.cold.notes,
                *starts.warm.notes,
                *stand_in_notes({network_condition(order).label: (references, of_method(variants, "vanilla"))}),
            ),
        )


def network_condition(order: StudyOptions) -> Condition:
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


def variant_label(spec: RunSpec) -> str:
    """What a variant is called."""
    rate = rate_of(spec)
    return f"Dropout {rate:g}" if rate else label_of(spec.method.name)


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
    """One method's accuracies; no bar if a run diverged or none ended."""
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


def loss_table(variants: Variants, references: Results) -> Table:
    """First stage, last stage and distance from a fresh vanilla network, of the network and of its subnetworks."""
    fresh = fresh_accuracy(references, of_method(variants, "vanilla"), NETWORK)
    rows = tuple(
        (
            label,
            *(
                shown(sample)
                for metric in (NETWORK, SUBNETWORKS)
                for sample in (results.first(metric), results.final(metric), fresh.minus(ends(results, metric)))
            ),
            str(len(results.ended)),
        )
        for label, results in variants.items()
    )
    return Table(
        name="losses",
        caption="Accuracy at the first and the last stage, and how far the last tenth of the stages is below a fresh "
        "vanilla network; mean ± standard deviation over seeds.",
        header=(
            "variant",
            *("first", "last", "below fresh"),
            *("subnetworks, first", "subnetworks, last", "subnetworks, below fresh"),
            "n",
        ),
        rows=rows,
    )
