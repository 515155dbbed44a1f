"""Quickstart: the paper's point on 1,600 digits in minutes. Labels are redrawn at each stage; who can still learn them?

A small cousin of the random-label experiment of section 5.1.1, not one of the paper's own figures.
"""

import numpy as np

from supple_lab.data.digits import Digits
from supple_lab.models.mlp import MLP
from supple_lab.report.figure import ClaimRow, Drawing, Figure, Table
from supple_lab.report.intervals import show
from supple_lab.report.panel import Curve, Level, Panel
from supple_lab.report.results import Results
from supple_lab.report.verdict import claim_above, claim_below
from supple_lab.runs.problem import Supervised
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.studies.base import Study
from supple_lab.studies.condition import Condition
from supple_lab.studies.labels import label_of
from supple_lab.studies.order import Order

CHANCE = 0.1  # ten classes, drawn uniformly
LOST = 0.5  # a network that ends this far below its first stage has lost most of what it could do
KEPT = 0.05  # one that ends within five points of it still learns

# Long enough that a ReLU network has reached chance (by stage 8 of 20), short enough for a coffee.
LONG = RandomLabel(num_stages=20, epochs=40)
SCENARIOS = {"smoke": RandomLabel(num_stages=2, epochs=2), "quick": LONG, "paper": LONG}


SMOKE = "Smoke scale: two labellings of two epochs show that everything runs; the numbers mean nothing."
SETTINGS = (
    "A demonstration, not one of the paper's experiments: rate, drop rate, p and length were chosen by looking at "
    "accuracies on these very digits, so that the difference shows in minutes."
)


class Quickstart(Study):
    """ReLU, Dropout and AID on random-label digits."""

    name = "quickstart"
    title = "Random-label digits: who can still learn?"
    question = (
        "One network memorises 1,600 handwritten digits under random labels; then the labels are drawn anew, again and "
        "again. A network that keeps its plasticity learns the last labels as well as the first."
    )

    def conditions(self, order: Order) -> tuple[Condition, ...]:
        problem = Supervised(scenario=SCENARIOS[order.scale], dataset=Digits())
        model = MLP(width=256, num_hidden=3)
        return (Condition(label="random-label digits", problem=problem, model=model, experiment="quickstart"),)

    def draw(self, results: Results, order: Order) -> Drawing:
        accuracies = {name: results.of_method(name).matrix("train_accuracy") for name in results.methods()}
        return Drawing(
            figures=(accuracy_figure(accuracies),),
            tables=(first_and_last_table(accuracies),),
            claims=(falls_claim(accuracies, "vanilla"), falls_claim(accuracies, "dropout"), keeps_claim(accuracies)),
            notes=(*((SMOKE,) if order.scale == "smoke" else ()), SETTINGS),
        )


def accuracy_figure(accuracies: dict[str, np.ndarray]) -> Figure:
    """Accuracy at the end of each stage, one curve a method."""
    curves = tuple(
        Curve(method=name, label=label_of(name), x=np.arange(1, values.shape[1] + 1), values=values)
        for name, values in accuracies.items()
    )
    panel = Panel(
        title="Accuracy on the labels of each stage",
        x_label="stage (labels redrawn at each)",
        y_label="accuracy at the end of the stage",
        curves=curves,
        levels=(Level(label="chance", value=CHANCE),),
        y_range=(0.0, 1.02),  # room for a marker at 1
    )
    caption = "Training accuracy in evaluation mode at the end of each stage; line: mean over seeds, band: their range."
    return Figure(name="quickstart", caption=caption, panels=(panel,))


def first_and_last_table(accuracies: dict[str, np.ndarray]) -> Table:
    """First stage, last stage and the change between them, with the spread over seeds."""
    rows = tuple(
        (label_of(name), show(values[:, 0]), show(values[:, -1]), show(values[:, -1] - values[:, 0]), str(len(values)))
        for name, values in accuracies.items()
    )
    return Table(
        name="first_and_last",
        caption="Accuracy at the end of the first and the last stage; mean ± standard deviation over seeds.",
        header=("method", "first stage", "last stage", "change", "seeds"),
        rows=rows,
    )


def falls_claim(accuracies: dict[str, np.ndarray], name: str) -> ClaimRow:
    """Does the method lose what it could do?"""
    return claim_below(
        change(accuracies, name),
        -LOST,
        claim=f"{label_of(name)} loses its plasticity: it learns the last stage far worse than the first.",
        paper="declines over the stages, on MNIST (Figure 3)",
        quantity="change from the first to the last stage",
    )


def keeps_claim(accuracies: dict[str, np.ndarray]) -> ClaimRow:
    """Does AID end as well as it began?"""
    return claim_above(
        change(accuracies, "aid"),
        -KEPT,
        claim="AID keeps its plasticity: it learns the last stage as well as the first.",
        paper="keeps a high accuracy throughout, on MNIST (Figure 3)",
        quantity="change from the first to the last stage",
    )


def change(accuracies: dict[str, np.ndarray], name: str) -> np.ndarray:
    """Last stage minus first, one value a seed; none where the method was not run."""
    return accuracies[name][:, -1] - accuracies[name][:, 0] if name in accuracies else np.array([])
