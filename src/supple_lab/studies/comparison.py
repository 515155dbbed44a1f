"""Comparison: methods beside each other on each network, as panels and tables."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from supple_lab.report.figure import Table
from supple_lab.report.intervals import show
from supple_lab.report.panel import Panel
from supple_lab.report.results import Results
from supple_lab.report.sample import Sample
from supple_lab.report.tables import ABSENT, best_of_columns
from supple_lab.studies.chosen import Chosen, chosen
from supple_lab.studies.condition import Condition
from supple_lab.studies.hyperparameters import best, cases
from supple_lab.studies.labels import label_of
from supple_lab.studies.order import Order
from supple_lab.studies.stage_curves import stage_curves

Groups = Mapping[str, Chosen]  # by network, as it is called
Number = Callable[[Results], Sample]  # what is compared, one number a run


def compare(
    results: Results, conditions: Sequence[Condition], *, order: Order, metric: str = "test_accuracy"
) -> dict[str, Chosen]:
    """Each network's runs to report; a search is decided by final accuracy, the paper's rule for generalizability."""
    return {
        condition.label: chosen(results, condition, order=order, metric=metric, rule="final")
        for condition in conditions
    }


def selection_notes(*groups: Groups) -> tuple[str, ...]:
    """What was selected how."""
    return tuple(note for group in groups for one in group.values() for note in one.notes)


def methods_of(groups: Groups) -> list[str]:
    """All methods of all networks, in the study's order."""
    return list(dict.fromkeys(name for group in groups.values() for name in group.by_method))


def stage_panels(groups: Groups, metric: str, *, y_label: str) -> tuple[Panel, ...]:
    """The metric over the stages, a panel a network."""
    return tuple(
        Panel(title=label, x_label="stage", y_label=y_label, curves=stage_curves(group.by_method, metric))
        for label, group in groups.items()
    )


def final_accuracy(results: Results) -> Sample:
    """Test accuracy after the last epoch."""
    return results.final("test_accuracy")


def mean_accuracy(results: Results) -> Sample:
    """Test accuracy at the end of a stage, the mean over all stages."""
    return results.stage_mean("test_accuracy")


def comparison_table(groups: Groups, number: Number, *, name: str, caption: str) -> Table:
    """Methods by networks, the best of each network in bold."""
    methods = methods_of(groups)
    samples = [[number(group.of(method)) for group in groups.values()] for method in methods]
    means = np.array([[mean_of(sample) for sample in row] for row in samples], dtype=float)
    return Table(
        name=name,
        caption=f"{caption}; mean ± standard deviation over seeds, the best of each column in bold.",
        header=("method", *(f"{label} ({num_seeds(group, number)})" for label, group in groups.items())),
        rows=tuple((label_of(method), *map(shown, row)) for method, row in zip(methods, samples, strict=True)),
        bold=best_of_columns(means.reshape(len(methods), len(groups)), columns=range(1, len(groups) + 1)),
    )


def num_seeds(group: Chosen, number: Number) -> str:
    """How many runs stand behind the numbers of a network."""
    numbers = {len(number(runs)) for runs in group.by_method.values()} - {0}
    if not numbers:
        return "not run"
    low, high = min(numbers), max(numbers)
    return f"n = {low}" if low == high else f"n = {low} to {high}"


def mean_of(sample: Sample) -> float:
    """The mean over seeds; not a number where one diverged or none ended."""
    return float(np.mean(sample.values)) if len(sample) else float("nan")


def shown(sample: Sample, *, decimals: int = 3) -> str:
    """A sample as a cell of a table, saying how many runs have no value: they diverged, or never recorded a number."""
    known = sample.values[np.isfinite(sample.values)]
    if not len(sample):
        return ABSENT
    if not len(known):
        return "without a value"
    lost, told = len(sample) - len(known), show(known, decimals=decimals)
    return f"{told} ({lost} of {len(sample)} without a value)" if lost else told


def of_the_paper(groups: Groups, experiment: str) -> dict[str, Chosen]:
    """The methods of the experiment's table alone: what an order adds is drawn, but decides no claim of the paper."""
    names = {setting.method.name for case in cases(experiment) for setting in best(experiment, case)}
    return {
        label: Chosen({name: runs for name, runs in group.by_method.items() if name in names})
        for label, group in groups.items()
    }
