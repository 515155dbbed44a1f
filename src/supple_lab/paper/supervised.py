"""Supervised (section 5.3, Table 1; appendix G.5): ordinary training, nothing changes but the rate."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from supple_lab.paper.claims import Agree, AtPaperScale, Beats, Below, Claim, Each, Number, Within, final
from supple_lab.paper.compare import BAND, beside_the_paper, label_of, sample_table
from supple_lab.paper.method_runs import (
    Groups,
    MethodRuns,
    methods_of,
    nothing_over_epochs,
    of_the_paper,
    selection_notes,
)
from supple_lab.paper.networks import TINY, NetworkStudy, final_accuracy, num_seeds
from supple_lab.paper.study import ByScale, StudyOptions
from supple_lab.report.figure import Figure, Line, Panel, StudyReport, Table
from supple_lab.report.tables import ABSENT
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


class Networks(NamedTuple):
    """The runs of each network, and which of the paper's it is."""

    groups: Groups
    cases: Mapping[str, str]

    def twelve(self) -> dict[str, Sample]:
        """Each final accuracy minus the paper's."""
        return {
            f"{label}: {label_of(method)}": replace(own, values=own.values - row[self.cases[label]][0])
            for label, group in self.groups.items()
            for method, row in SUPERVISED_TABLE.items()
            for own in [final_accuracy(group.of(method))]
        }

    def excesses(self) -> dict[str, dict[str, tuple[Sample, Sample]]]:
        """By how much training accuracy is above test accuracy, for AID and for another method, in both modes."""
        return {
            mode: {
                f"{label}: {label_of(other)}": (excess(group.of("aid")), excess(group.of(other)))
                for label, group in self.groups.items()
                for other in ("l2", "dropout")
            }
            for mode, excess in (
                ("evaluation mode", lambda runs: runs.final("train_accuracy").minus(final_accuracy(runs))),
                ("training mode", excess_in_training),
            )
        }


def excess_in_training(results: Results) -> Sample:
    """By the training accuracy of the last epoch, as the paper's figure has it; of runs with a log."""
    logged = Results(tuple(run for run in results.runs if run.epochs))
    return logged.sample(lambda run: run.epochs[-1]["online_accuracy"]).minus(final_accuracy(results))


EXCESS = Number("final train minus test accuracy, AID minus the other", lambda pair: pair[0].minus(pair[1]))
CLAIMS = (
    Claim(
        key="supervised_numbers",
        paper="Final test accuracy of vanilla / L2 / Dropout / AID: 0.660 / 0.742 / 0.733 / 0.748 (CNN), 0.581 / "
        "0.574 / 0.651 / 0.690 (ResNet-18), 0.430 / 0.417 / 0.466 / 0.519 (VGG-16).",
        claim="The twelve accuracies of the paper's table come out again.",
        rule=Each(
            "for each of the twelve",
            Networks.twelve,
            AtPaperScale(Within(Number("final test accuracy minus the paper's", lambda distance: distance), NEAR)),
        ),
    ),
    Claim(
        key="aid_leads_supervised",
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
            Networks.excesses,
            Each("the other being L2 and Dropout, on each of the three", dict, Below(EXCESS)),
        ),
    ),
)


class Supervised(NetworkStudy):
    """ReLU, L2, Dropout and AID on the three networks."""

    name = "supervised"
    title = "Standard supervised learning"
    question = "Where nothing changes but the learning rate, does AID generalize better than L2 and Dropout?"
    section = "5.3 Standard Supervised Learning"
    claims = CLAIMS
    scenarios = ByScale(
        smoke=Stationary(epochs=2, milestones=(1,), batch_size=20),
        quick=Stationary(epochs=60, milestones=(30, 45), batch_size=16),
        paper=Stationary(),
    )
    quick = (
        "60 epochs, the rate divided by 10 at epochs 30 and 45, batches of 16; the paper's numbers are of its own "
        "networks and data"
    )
    left_out = "VGG-16"
    silent = (TINY, "batches of 256")

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        groups, absent = self.groups(results, order), self.absent(order)
        cases = {condition.label: str(condition.case) for condition in self.conditions(order)}
        all_groups = {**groups, **dict.fromkeys(absent, MethodRuns())}
        return StudyReport(
            figures=tuple(learning_curves(groups, quantity) for quantity in METRICS),
            tables=(beside_the_paper(accuracy_table(groups, cases), order),),
            claims=self.decided(Networks(all_groups, {**cases, **absent}), order),
            notes=(*self.notes(order), *selection_notes(groups)),
        )


def learning_curves(groups: Groups, quantity: str) -> Figure:
    """Training above, test below, a column a network."""
    metrics = zip(METRICS[quantity], ("training", "test"), strict=True)
    return Figure(
        name=f"supervised_{quantity}",
        caption=f"Training {quantity} (of each batch before its update, in training mode) and test {quantity} after "
        f"each epoch; {BAND}",
        panels=tuple(
            epoch_panel(label, group, metric, f"{when} {quantity}")
            for metric, when in metrics
            for label, group in groups.items()
        ),
        columns=max(1, len(groups)),
    )


def epoch_panel(label: str, group: MethodRuns, metric: str, y_label: str) -> Panel:
    matrices = {name: runs.epoch_matrix(metric) for name, runs in group.by_method.items() if runs.drawn}
    return Panel(
        title=label,
        x_label="epoch",
        y_label=y_label,
        curves=tuple(
            Line.over_seeds(method=name, label=label_of(name), x=np.arange(1, length + 1), values=values)
            for name, values in matrices.items()
            if (length := values.shape[1])
        ),
        nothing=nothing_over_epochs(group),
    )


def accuracy_table(groups: Groups, cases: Mapping[str, str]) -> Table:
    """Final test accuracy beside the paper's and beside the training accuracy that the gap is taken from."""

    def columns_of(label: str) -> dict[str, Callable[[str], object]]:
        group = groups[label]
        printed = {name: "{:.3f} ± {:.3f}".format(*row[cases[label]]) for name, row in SUPERVISED_TABLE.items()}
        return {
            f"{label} ({num_seeds(group, final_accuracy)})": lambda method: final_accuracy(group.of(method)),
            f"{label}, paper": lambda method: printed.get(method, ABSENT),
            f"{label}, training": lambda method: group.of(method).final("train_accuracy"),
        }

    groups = {label: group for label, group in groups.items() if group.by_method}
    columns = {name: cell for label in groups for name, cell in columns_of(label).items()}
    return sample_table(
        "accuracy",
        "Final test accuracy, and that on the training data; mean ± standard deviation over seeds, our best in bold. "
        "Both accuracies of ours are taken in evaluation mode.",
        rows=methods_of(groups),
        columns={"method": label_of, **columns},
        best=[name for name in columns if name.endswith(")")],
    )
