"""Supervised (section 5.3, Table 1; appendix G.5): ordinary training, nothing changes but the rate."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from supple_lab.paper.claims import Agree, AtPaperScale, Beats, Below, Claim, Each, Number, Within, final
from supple_lab.paper.compare import (
    Groups,
    MethodRuns,
    beside_the_paper,
    compare,
    final_accuracy,
    label_of,
    mean_of,
    methods_of,
    nothing_over_epochs,
    num_seeds,
    of_the_paper,
    selection_notes,
    shown,
)
from supple_lab.paper.networks import ALL, left_out, networks
from supple_lab.paper.notes import TINY, scale_notes
from supple_lab.paper.study import Condition, Study, StudyOptions
from supple_lab.report.figure import Curve, Figure, Panel, StudyReport, Table
from supple_lab.report.tables import ABSENT, best_of_columns
from supple_lab.results.results import Results, Sample
from supple_lab.scenarios.stationary import Stationary

# A point: about twice the paper's largest spread over seeds. By two, AID's row of the CNN would pass for Dropout's.
NEAR = 0.01
METRICS = {  # what a figure shows: the metric in training, and that in testing
    "accuracy": ("online_accuracy", "test_accuracy"),
    "loss": ("online_loss", "test_loss"),
}
# Final test accuracy and its standard deviation after 200 epochs (section 5.3, Table 1), by method and network.
SUPERVISED_TABLE = {
    "vanilla": {"cnn": (0.660, 0.0058), "resnet18": (0.581, 0.0029), "vgg16": (0.430, 0.0009)},
    "l2": {"cnn": (0.742, 0.0038), "resnet18": (0.574, 0.0017), "vgg16": (0.417, 0.0042)},
    "dropout": {"cnn": (0.733, 0.0037), "resnet18": (0.651, 0.0028), "vgg16": (0.466, 0.0040)},
    "aid": {"cnn": (0.748, 0.0021), "resnet18": (0.690, 0.0014), "vgg16": (0.519, 0.0043)},
}
SCENARIOS = {
    "smoke": Stationary(epochs=2, milestones=(1,), batch_size=20),
    "quick": Stationary(epochs=60, milestones=(30, 45), batch_size=16),
    "paper": Stationary(),
}


class Networks(NamedTuple):
    """The runs of each network, and which of the paper's it is."""

    groups: Groups
    cases: Mapping[str, str]


def twelve(networks: Networks) -> dict[str, tuple[Sample, float]]:
    """Each final accuracy with the paper's."""
    return {
        f"{label}: {label_of(method)}": (final_accuracy(group.of(method)), row[networks.cases[label]][0])
        for label, group in networks.groups.items()
        for method, row in SUPERVISED_TABLE.items()
    }


def distance_from_the_paper(pair: tuple[Sample, float]) -> Sample:
    """Ours minus the paper's, a number a seed."""
    sample, paper = pair
    return sample.minus(replace(sample, values=np.full(len(sample), paper)))


def excesses(networks: Networks) -> dict[str, dict[str, tuple[Sample, Sample]]]:
    """By how much training accuracy is above test accuracy, for AID and for another method, in both modes."""
    return {
        mode: {
            f"{label}: {label_of(other)}": (excess(group.of("aid")), excess(group.of(other)))
            for label, group in networks.groups.items()
            for other in ("l2", "dropout")
        }
        for mode, excess in (("evaluation mode", excess_in_evaluation), ("training mode", excess_in_training))
    }


def excess_in_evaluation(results: Results) -> Sample:
    """Training accuracy in evaluation mode minus test accuracy, at the end."""
    return results.final("train_accuracy").minus(results.final("test_accuracy"))


def excess_in_training(results: Results) -> Sample:
    """Training accuracy of the last epoch, as the paper's figure has it, minus test accuracy; of runs with a log."""
    logged = Results(tuple(run for run in results.runs if run.epochs))
    return logged.sample(lambda run: run.epochs[-1]["online_accuracy"]).minus(results.final("test_accuracy"))


EXCESS = Number("final train minus test accuracy, AID minus the other", lambda pair: pair[0].minus(pair[1]))
SECTION = "5.3 Standard Supervised Learning"
CLAIMS = (
    Claim(
        key="supervised_numbers",
        section=SECTION,
        paper="Final test accuracy of vanilla / L2 / Dropout / AID: 0.660 / 0.742 / 0.733 / 0.748 (CNN), 0.581 / "
        "0.574 / 0.651 / 0.690 (ResNet-18), 0.430 / 0.417 / 0.466 / 0.519 (VGG-16).",
        claim="The twelve accuracies of the paper's table come out again.",
        rule=Each(
            "for each of the twelve",
            twelve,
            AtPaperScale(Within(Number("final test accuracy minus the paper's", distance_from_the_paper), NEAR)),
        ),
    ),
    Claim(
        key="aid_leads_supervised",
        section=SECTION,
        paper="AID is best on each dataset: 0.748, 0.690, 0.519.",
        claim="AID generalizes best without any change of the data, too.",
        rule=Each(
            "on each of the three",
            lambda networks: of_the_paper(networks.groups, "supervised"),
            Beats("aid", partial(final, "test_accuracy")),
        ),
    ),
    Claim(
        key="aid_closes_generalization_gap",
        section="G.5 Learning Curves for Standard Supervised Learning",
        paper="AID closes the gap between training and test more than L2 and Dropout do.",
        claim="AID overfits less than L2 and Dropout.",
        rule=Agree(
            "by train accuracy in evaluation mode and by the last epoch's in training mode, which the paper's figure "
            "shows: it holds or fails only if both agree",
            excesses,
            Each("the other being L2 and Dropout, on each of the three", dict, Below(EXCESS)),
        ),
    ),
)


class Supervised(Study):
    """ReLU, L2, Dropout and AID on the three networks."""

    name = "supervised"
    title = "Standard supervised learning"
    question = "Where nothing changes but the learning rate, does AID generalize better than L2 and Dropout?"
    claims = CLAIMS

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        return tuple(
            network.condition(SCENARIOS[order.scale], order=order, experiment="supervised")
            for network in networks(order, *ALL)
        )

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        groups = compare(results, self.conditions(order), order=order)
        cases = {condition.label: str(condition.case) for condition in self.conditions(order)}
        absent = left_out(self.conditions(order), *ALL)
        all_groups = {**groups, **dict.fromkeys(absent, MethodRuns({}))}
        return StudyReport(
            figures=tuple(learning_curves(groups, quantity) for quantity in METRICS),
            tables=(beside_the_paper(accuracy_table(groups, cases), order),),
            claims=self.decided(Networks(all_groups, {**cases, **absent}), order),
            notes=(
                *scale_notes(
                    order,
                    "supervised",
                    quick="60 epochs, the rate divided by 10 at epochs 30 and 45, batches of 16; the paper's numbers "
                    "are of its own networks and data",
                    left_out="VGG-16",
                    conditions=self.conditions(order),
                    silent=(TINY, "batches of 256"),
                ),
                *selection_notes(groups),
            ),
        )


def learning_curves(groups: Groups, quantity: str) -> Figure:
    """Training above, test below, a column a network."""
    training, testing = METRICS[quantity]
    return Figure(
        name=f"supervised_{quantity}",
        caption=f"Training {quantity} (of each batch before its update, in training mode) and test {quantity} after "
        "each epoch; line: mean over seeds, band: one standard deviation.",
        panels=(
            *(epoch_panel(label, group, training, f"training {quantity}") for label, group in groups.items()),
            *(epoch_panel(label, group, testing, f"test {quantity}") for label, group in groups.items()),
        ),
        columns=max(1, len(groups)),
    )


def epoch_panel(label: str, group: MethodRuns, metric: str, y_label: str) -> Panel:
    """A metric over the epochs."""
    curves = (epoch_curve(name, runs, metric) for name, runs in group.by_method.items() if runs.drawn)
    return Panel(
        title=label,
        x_label="epoch",
        y_label=y_label,
        curves=tuple(curve for curve in curves if len(curve.x)),
        nothing=nothing_over_epochs(group),
    )


def epoch_curve(method: str, runs: Results, metric: str) -> Curve:
    """One method's metric after each epoch."""
    values = runs.epoch_matrix(metric)
    x = np.arange(1, values.shape[1] + 1)
    return Curve(method=method, label=label_of(method), x=x, values=values, band="deviation")


def accuracy_table(groups: Groups, cases: Mapping[str, str]) -> Table:
    """Final test accuracy beside the paper's and beside the training accuracy that the gap is taken from."""
    groups = {label: group for label, group in groups.items() if group.by_method}
    methods = methods_of(groups)
    samples = [[final_accuracy(group.of(method)) for group in groups.values()] for method in methods]
    rows = tuple(
        (
            label_of(method),
            *(
                cell
                for label, sample in zip(groups, row, strict=True)
                for cell in (
                    *beside(sample, method, cases[label]),
                    shown(groups[label].of(method).final("train_accuracy")),
                )
            ),
        )
        for method, row in zip(methods, samples, strict=True)
    )
    means = np.array([[mean_of(sample) for sample in row] for row in samples]).reshape(len(methods), len(groups))
    columns = [1 + 3 * place for place in range(len(groups))]
    header = (
        part
        for label, group in groups.items()
        for part in (f"{label} ({num_seeds(group, final_accuracy)})", f"{label}, paper", f"{label}, training")
    )
    return Table(
        name="accuracy",
        caption="Final test accuracy, and that on the training data; mean ± standard deviation over seeds, our best in "
        "bold. Both accuracies of ours are taken in evaluation mode.",
        header=("method", *header),
        rows=rows,
        bold=best_of_columns(means, columns=columns),
    )


def beside(sample: Sample, method: str, case: str) -> tuple[str, str]:
    """Ours and the paper's."""
    if method not in SUPERVISED_TABLE:
        return shown(sample), ABSENT
    mean, deviation = SUPERVISED_TABLE[method][case]
    return shown(sample), f"{mean:.3f} ± {deviation:.3f}"
