"""Supervised (section 5.3, Table 1; appendix G.5): ordinary training, nothing changes but the rate."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from supple_lab.paper.claims import SUPERVISED_TABLE, at_paper_scale, beside_the_paper, words_of
from supple_lab.paper.compare import (
    Chosen,
    Groups,
    Number,
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
from supple_lab.paper.groups import in_each, under_both
from supple_lab.paper.networks import ALL, left_out, networks
from supple_lab.paper.notes import TINY, scale_notes
from supple_lab.paper.rules import lead
from supple_lab.paper.study import Condition, Study, StudyOptions
from supple_lab.report.figure import ClaimRow, Curve, Figure, Panel, StudyReport, Table
from supple_lab.report.tables import ABSENT, best_of_columns
from supple_lab.report.verdict import claim_difference_below, claim_equal
from supple_lab.results.results import Results, Sample
from supple_lab.scenarios.stationary import Stationary

# A point: about twice the paper's largest spread over seeds. By two, AID's row of the CNN would pass for Dropout's.
NEAR = 0.01
METRICS = {  # what a figure shows: the metric in training, and that in testing
    "accuracy": ("online_accuracy", "test_accuracy"),
    "loss": ("online_loss", "test_loss"),
}
SCENARIOS = {
    "smoke": Stationary(epochs=2, milestones=(1,), batch_size=20),
    "quick": Stationary(epochs=60, milestones=(30, 45), batch_size=16),
    "paper": Stationary(),
}


class Supervised(Study):
    """ReLU, L2, Dropout and AID on the three networks."""

    name = "supervised"
    title = "Standard supervised learning"
    question = "Where nothing changes but the learning rate, does AID generalize better than L2 and Dropout?"

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        return tuple(
            network.condition(SCENARIOS[order.scale], order=order, experiment="supervised")
            for network in networks(order, *ALL)
        )

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        groups = compare(results, self.conditions(order), order=order)
        cases = {condition.label: str(condition.case) for condition in self.conditions(order)}
        absent = left_out(self.conditions(order), *ALL)
        all_groups = {**groups, **dict.fromkeys(absent, Chosen({}))}
        return StudyReport(
            figures=tuple(learning_curves(groups, quantity) for quantity in METRICS),
            tables=(beside_the_paper(accuracy_table(groups, cases), order),),
            claims=(
                numbers_come_out(all_groups, {**cases, **absent}, order),
                aid_leads(of_the_paper(all_groups, "supervised")),
                aid_closes_the_gap(all_groups),
            ),
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


def epoch_panel(label: str, group: Chosen, metric: str, y_label: str) -> Panel:
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


def numbers_come_out(groups: Groups, cases: Mapping[str, str], order: StudyOptions) -> ClaimRow:
    """Is each of the twelve within a point of the paper's? Decided for the paper's own networks and data alone."""
    words = words_of("supervised_numbers")
    rows = {
        f"{label}: {label_of(method)}": at_paper_scale(
            near(final_accuracy(group.of(method)), method, cases[label]), order
        )
        for label, group in groups.items()
        for method in SUPERVISED_TABLE
    }
    return in_each(rows, words)


def near(sample: Sample, method: str, case: str) -> ClaimRow:
    """Is the mean within a point of the paper's?"""
    mean, _ = SUPERVISED_TABLE[method][case]
    paper = replace(sample, values=np.full(len(sample), mean))
    quantity = f"final test accuracy minus the paper's {mean:.3f}"
    return claim_equal(sample, paper, NEAR, quantity=quantity, **words_of("supervised_numbers"))


def aid_leads(groups: Groups) -> ClaimRow:
    """Is AID above each of the others on each network?"""
    words = words_of("aid_leads_supervised")
    rows = {
        label: lead(group, "aid", number=final_accuracy, quantity="final test accuracy", words=words)
        for label, group in groups.items()
    }
    return in_each(rows, words)


def aid_closes_the_gap(groups: Groups) -> ClaimRow:
    """Is training accuracy above test accuracy by less with AID than with L2 and with Dropout, in both modes?"""
    words = words_of("aid_closes_generalization_gap")

    def closes(excess: Number, mode: str) -> ClaimRow:
        rows = {
            f"{label}: {label_of(other)}": claim_difference_below(
                excess(group.of("aid")),
                excess(group.of(other)),
                quantity=f"final train minus test accuracy in {mode}, AID minus {label_of(other)}, on {label}",
                **words,
            )
            for label, group in groups.items()
            for other in ("l2", "dropout")
        }
        return in_each(rows, words)

    modes = {"evaluation mode": excess_in_evaluation, "training mode": excess_in_training}
    return under_both({mode: closes(excess, mode) for mode, excess in modes.items()}, words)


def excess_in_evaluation(results: Results) -> Sample:
    """Training accuracy in evaluation mode minus test accuracy, at the end."""
    return results.final("train_accuracy").minus(results.final("test_accuracy"))


def excess_in_training(results: Results) -> Sample:
    """Training accuracy of the last epoch, as the paper's figure has it, minus test accuracy; of runs with a log."""
    logged = Results(tuple(run for run in results.runs if run.epochs))
    return logged.sample(lambda run: run.epochs[-1]["online_accuracy"]).minus(results.final("test_accuracy"))
