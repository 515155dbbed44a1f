"""Why Dropout fails (section 3, Figure 2): its subnetworks lose their plasticity, and so does the network they form.

Left: how much accuracy a network of 8 layers has lost since the first labels. Middle: what copies of it under fixed
masks come to on labels of their own. Right: cold and warm starts; those runs and the claims on them are warm_start's.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from supple_lab.data.digits import Digits
from supple_lab.data.idx import MNIST
from supple_lab.models.mlp import MLP
from supple_lab.paper import warm_start
from supple_lab.paper.claims import Above, Agree, All, Claim, Computed, Each, Kept, Lost, Number, last_tenth
from supple_lab.paper.compare import bar, beside_the_paper, label_of, sample_table, stage_curves
from supple_lab.paper.method_runs import NO_RUNS, MethodRuns, ends, reference, stand_in_notes
from supple_lab.paper.networks import final_accuracy, slim_settings, sources, unsearched
from supple_lab.paper.study import ByScale, Condition, Scale, Study, StudyOptions
from supple_lab.report.figure import Bars, Figure, Level, Line, Panel, StudyReport, Table
from supple_lab.results.results import Results, Sample, by_seed
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.spec import RunSpec, Supervised

NETWORK, ONLINE, SUBNETWORKS = "train_accuracy", "online_accuracy", "subnetwork_accuracy"
READINGS = {"online": ONLINE, "at the end of a stage": NETWORK}  # the accuracies of the network that may be the paper's
MODELS = ByScale(
    smoke=MLP(width=16, num_hidden=7),
    quick=MLP(width=128, num_hidden=7),
    paper=MLP(width=512, num_hidden=7),
)
DATASETS = ByScale(smoke=Digits(), quick=Digits(), paper=MNIST())
SCENARIOS = ByScale(
    smoke=RandomLabel(num_stages=2, epochs=1, num_images=128),
    quick=RandomLabel(num_stages=12, epochs=20, num_images=1400),
    paper=RandomLabel(num_stages=50, epochs=100, num_images=1400),
)
NUM_SUBNETWORKS = ByScale(smoke=2, quick=2, paper=10)
SCALE_NOTES: Mapping[Scale, tuple[str, ...]] = {
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


def rate_of(spec: RunSpec) -> float | None:
    """The drop rate: 0 for the vanilla network, none for a method that is neither."""
    return 0.0 if spec.method.name == "vanilla" else getattr(spec.method, "drop_positive", None)


def variant_of(spec: RunSpec) -> str:
    """The method, and its rate if it is Dropout, which comes at several."""
    rate = rate_of(spec)
    return f"Dropout {rate:g}" if rate else spec.method.name


def by_reading(runs: MethodRuns) -> dict[str, MethodRuns]:
    return {reading: replace(runs, metric=metric) for reading, metric in READINGS.items()}


def fresh(runs: MethodRuns) -> Sample:
    """What a fresh vanilla network comes to; subnetworks are measured by the network."""
    return runs.fresh(NETWORK if runs.metric == SUBNETWORKS else runs.metric)


def highest(runs: MethodRuns) -> Sample:
    """The last tenth at the highest rate."""
    rates = {rate_of(results.runs[0].spec) or 0.0: results for results in runs.by_method.values()}
    return ends(rates[max(rates)] if any(rates) else NO_RUNS, runs.metric)


def slope(runs: MethodRuns) -> Sample:
    """How much more accuracy is lost per unit of the drop rate, by least squares; none from a single rate.

    Lost is the first stage minus the mean over the stages. The first stage is that of a fresh network with the same
    masks, so that what masks cost does not count; the mean over all stages is the lower, the earlier a network
    collapses.
    """
    by_rate = {rate_of(results.runs[0].spec): results for results in runs.by_method.values()}
    rates = sorted(rate for rate in by_rate if rate is not None)
    if len(rates) < 2:
        return Sample(values=np.array([]), seeds=(), runs=())
    losses = [by_rate[rate].first(runs.metric).minus(by_rate[rate].stage_mean(runs.metric)) for rate in rates]
    centred = np.array(rates) - np.mean(rates)
    return by_seed(losses, lambda values: float(centred @ values / (centred @ centred)))


SLOPE = Above(
    Number("slope over the drop rates, vanilla as 0, of the first stage minus the mean over the stages", slope)
)
FRESH = Number("accuracy of a fresh vanilla network", fresh)
AID_KEEPS = Kept(last_tenth("aid"), FRESH)
CLAIMS = (
    Claim(
        key="more_dropout_falls_further",
        paper="The higher the Dropout probability, the more an 8-layer MLP loses on random labels.",
        claim="The higher the drop rate, the more accuracy is lost.",
        rule=Agree("by both accuracies", by_reading, SLOPE),
    ),
    Claim(
        key="subnetworks_fall_too",
        paper="10 subnetworks sampled after each task learn new tasks ever worse, more so at higher rates.",
        claim="Subnetworks of a Dropout network lose their plasticity, too.",
        rule=Each(
            "of the subnetworks",
            lambda runs: {"": replace(runs, metric=SUBNETWORKS)},
            {
                "the highest rate": Lost(Number("last tenth at the highest rate", highest), FRESH),
                "slope over the rates": SLOPE,
            },
        ),
    ),
    Claim(
        key="aid_subnetworks_keep",
        paper="AID maintains trainability across all tasks.",
        claim="AID's network and its subnetworks keep their plasticity.",
        rule=All(
            {
                "the network": Agree("by both accuracies", by_reading, AID_KEEPS),
                "its subnetworks": Computed(
                    f"{AID_KEEPS.text}, of its subnetworks",
                    lambda runs: AID_KEEPS.decide(replace(runs, metric=SUBNETWORKS), "paper"),
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
    section = "3.1 Trainability Perspective"
    claims = CLAIMS

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        network = network_condition(order)
        return network, reference(network, order), *warm_start.conditions(order).values()

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        network = network_condition(order)
        by_variant: dict[str, Results] = network.of(results, order).group_by(variant_of)
        references = reference(network, order).of(results, order)
        runs = MethodRuns(by_variant, metric=NETWORK, references=references)
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
                    panels=(
                        Panel(
                            title="The network",
                            x_label="stage",
                            y_label="accuracy − accuracy at stage 1",
                            curves=tuple(
                                Line.over_seeds(
                                    method=curve.method,
                                    label=curve.label,
                                    x=curve.x,
                                    values=curve.values - curve.values[:, :1],
                                )
                                for curve in variant_curves(runs, NETWORK)
                            ),
                            levels=(Level(label="no loss", value=0.0),),
                        ),
                        Panel(
                            title="Its subnetworks",
                            x_label="stage",
                            y_label="mean accuracy on new labels",
                            curves=variant_curves(runs, SUBNETWORKS),
                            levels=(Level(label="chance", value=0.1),),
                            y_range=(0.0, 1.02),  # room for a marker at 1
                        ),
                        Bars(
                            title="Cold and warm start",
                            x_label="",
                            y_label="final test accuracy",
                            positions=("cold start", "warm start"),
                            bars=tuple(
                                bar(spec.method.name, label_of(variant_of(spec)), [final_accuracy(arm) for arm in arms])
                                for arms in [
                                    (starts.cold.of(name), starts.warm.of(name)) for name in starts.cold.by_method
                                ]
                                for spec in [run.spec for arm in arms for run in arm.ended][:1]
                            ),
                        ),
                    ),
                ),
            ),
            tables=(loss_table(runs), beside_the_paper(warm_start.gap_table(starts), order)),
            claims=self.decided(runs, order),
            notes=(
                *SCALE_NOTES.get(order.scale, ()),
                *((f"Warm start: {settings}",) if order.scale == "quick" else ()),
                *sources(order, "dropout_fails", "warm_start"),
                *unsearched(order, self.conditions(order)),
                "The claims on the warm start are decided by the study warm_start, from the same runs.",
                *starts.cold.notes,
                *starts.warm.notes,
                *stand_in_notes({network.label: runs}),
            ),
        )


def network_condition(order: StudyOptions) -> Condition:
    """Random labels for the network of 8 layers, with its subnetworks."""
    return Condition(
        label="random labels, 8 layers",
        problem=Supervised(
            scenario=SCENARIOS.at(order.scale),
            dataset=DATASETS.at(order.scale),
            subnetworks=NUM_SUBNETWORKS.at(order.scale),
        ),
        model=MODELS.at(order.scale),
        experiment="dropout_fails",
        case="mlp",
    )


def variant_curves(runs: MethodRuns, metric: str) -> tuple[Line, ...]:
    """A line a variant over the stages, in the colour of its method."""
    return tuple(
        replace(curve, method=runs.of(curve.method).runs[0].spec.method.name)
        for curve in stage_curves(runs.by_method, metric)
    )


def loss_table(runs: MethodRuns) -> Table:
    """First stage, last stage and distance from a fresh vanilla network, of the network and of its subnetworks."""
    fresh = runs.fresh()
    return sample_table(
        "losses",
        "Accuracy at the first and the last stage, and how far the last tenth of the stages is below a fresh vanilla "
        "network; mean ± standard deviation over seeds.",
        rows=runs.by_method,
        columns={
            "variant": label_of,
            "first": lambda name: runs.of(name).first(NETWORK),
            "last": lambda name: runs.of(name).final(NETWORK),
            "below fresh": lambda name: fresh.minus(runs.end(name)),
            "subnetworks, first": lambda name: runs.of(name).first(SUBNETWORKS),
            "subnetworks, last": lambda name: runs.of(name).final(SUBNETWORKS),
            "subnetworks, below fresh": lambda name: fresh.minus(runs.end(name, SUBNETWORKS)),
            "n": lambda name: len(runs.of(name).ended),
        },
    )
