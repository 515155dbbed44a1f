"""Trainability (section 5.1.1, Figure 3; appendix G.1.1): who can still learn after hundreds of changes?"""

import numpy as np

from supple_lab.data.base import Dataset
from supple_lab.data.digits import Digits
from supple_lab.data.mnist import MNIST
from supple_lab.data.slice import Slice
from supple_lab.models.mlp import MLP
from supple_lab.report.figure import Drawing, Figure, Table
from supple_lab.report.panel import Panel
from supple_lab.report.results import Results
from supple_lab.report.tables import best_of_columns
from supple_lab.runs.optimizer import Optimizer
from supple_lab.runs.problem import Supervised
from supple_lab.scenarios.base import Scenario
from supple_lab.scenarios.permuted_input import PermutedInput
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.studies.base import Study
from supple_lab.studies.comparison import mean_of, shown
from supple_lab.studies.condition import Condition
from supple_lab.studies.fresh import reference
from supple_lab.studies.labels import label_of, label_of_optimizer
from supple_lab.studies.order import Order
from supple_lab.studies.slip_notes import slip_notes
from supple_lab.studies.stage_curves import stage_curves, stage_label
from supple_lab.studies.trainability_claims import claims
from supple_lab.studies.trainability_grid import (
    HIGH_RATES,
    LOW_RATES,
    OPTIMIZERS,
    VIEWS,
    Grid,
    Place,
    View,
    grid_of,
    places,
)

PROBLEMS = ("permuted_input", "random_label")
IN_APPENDIX = ("rrelu", "identity", "sigmoid", "tanh")  # drawn in the grid alone, as in the paper

MODELS = {"smoke": MLP(width=16, num_hidden=2), "quick": MLP(width=128), "paper": MLP()}
DATASETS: dict[str, Dataset] = {
    "smoke": Slice(of=Digits(), num_train=128, num_test=10),
    "quick": Digits(),
    "paper": MNIST(),
}
SCENARIOS: dict[str, dict[str, Scenario]] = {
    "smoke": {
        "permuted_input": PermutedInput(num_stages=2, batch_size=64),
        "random_label": RandomLabel(num_stages=2, epochs=1, num_images=128),
    },
    # 6,000 and 10,000 steps: what 72 runs can have in minutes on two cores.
    "quick": {
        "permuted_input": PermutedInput(num_stages=60, batch_size=16),
        "random_label": RandomLabel(num_stages=10, epochs=40),
    },
    "paper": {"permuted_input": PermutedInput(), "random_label": RandomLabel()},
}
# The optimizers of Figure 3, and one method of each kind besides the vanilla network.
QUICK_METHODS = ("vanilla", "dropout", "shrink_perturb", "cbp", "crelu", "aid")

SCALE_NOTES = {
    "smoke": (
        "Smoke scale: 16 units and 128 digits for a few steps show that everything runs; the numbers mean nothing.",
    ),
    "quick": (
        "Quick scale, not the paper's protocol: 1,600 digits of 8x8 pixels in place of MNIST, 3 x 128 units in place "
        "of 3 x 2,000; 60 permutations in batches of 16 in place of 800 in batches of 512, 10 x 40 epochs of random "
        "labels in place of 200 x 100. Settings are those of the paper's tables, found for its own networks.",
        "Left out at quick scale: Adam 1e-4 and SGD 3e-3, so that no claim over all conditions can hold, and Fourier, "
        "ReDo, L2, L2 Init, RReLU, DropReLU, identity, sigmoid and tanh. --methods names others.",
    ),
    "paper": (
        "Where the paper is silent: SGD without momentum, one optimizer through all stages, Kaiming-uniform weights, "
        "labels drawn independently for each image. Fourier, identity, sigmoid and tanh have nothing to tune; CReLU "
        "and Fourier are narrowed to the same number of parameters.",
    ),
}
ACCURACIES = (
    "The paper says train accuracy and no more. We draw and judge two: online, the mean over a stage of the accuracy "
    "just before each update, in training mode, so that its masks count against a method that draws some; and at the "
    "end of a stage, in evaluation mode. The reference is a fresh vanilla network of the same seed, optimizer and "
    "learning rate (full reset, a tenth of the stages); it is drawn in no figure."
)


class Trainability(Study):
    """Every method on permuted and random-label MNIST, under four optimizers."""

    name = "trainability"
    title = "Trainability: who can still learn?"
    question = (
        "One network learns a problem, then another of the same kind, hundreds of times over: pixels permuted anew, or "
        "labels drawn anew. Which methods learn the last as well as the first, and does it depend on the optimizer?"
    )

    def conditions(self, order: Order) -> tuple[Condition, ...]:
        return tuple(one for cell in cells(order) for one in (cell, reference(cell, order)))

    def draw(self, results: Results, order: Order) -> Drawing:
        grid = grid_of(results, cells(order), order)
        return Drawing(
            figures=figures(grid),
            tables=tuple(table(grid, view) for view in VIEWS),
            claims=claims(grid),
            notes=(
                *SCALE_NOTES[order.scale],
                ACCURACIES,
                *slip_notes(order, cells(order), results),
                *grid.notes(),
            ),
        )


def cells(order: Order) -> tuple[Condition, ...]:
    """Both problems under each optimizer of the scale."""
    optimizers = HIGH_RATES if order.scale == "quick" else OPTIMIZERS
    return tuple(condition(problem, optimizer, order) for problem in PROBLEMS for optimizer in optimizers)


def condition(problem: str, optimizer: Optimizer, order: Order) -> Condition:
    """One cell of the grid at the order's scale."""
    return Condition(
        label=f"{problem.replace('_', ' ')}, {label_of_optimizer(optimizer)}",
        problem=Supervised(scenario=SCENARIOS[order.scale][problem], dataset=DATASETS[order.scale]),
        model=MODELS[order.scale],
        experiment=problem,
        case=optimizer,
        methods=QUICK_METHODS if order.scale == "quick" else (),
    )


def figures(grid: Grid) -> tuple[Figure, ...]:
    """Figure 3, and the grid of the appendix where the low learning rates are part of the study."""
    caption = "Accuracy on each stage; line: mean over seeds, band: one standard deviation."
    main, rest = places(VIEWS, HIGH_RATES), places(VIEWS, LOW_RATES)
    has_rest = any(map(grid.has, rest))
    left_out = IN_APPENDIX if has_rest else ()
    whole = Figure(
        name="trainability_grid",
        caption=f"All optimizers and activations (the paper's appendix G.1.1). {caption}",
        panels=tuple(panel(grid, place) for place in (*main, *rest)),
        columns=len(VIEWS),
    )
    first = Figure(
        name="trainability",
        caption=f"The higher learning rates (the paper's Figure 3). {caption}",
        panels=tuple(panel(grid, place, left_out=left_out) for place in main),
        columns=len(VIEWS),
    )
    return (first, whole) if has_rest else (first,)


def panel(grid: Grid, place: Place, *, left_out: tuple[str, ...] = ()) -> Panel:
    """One accuracy under one optimizer, a curve a method."""
    drawn = {name: runs for name, runs in grid.at(place).by_method.items() if name not in left_out}
    return Panel(
        title=place.label,
        x_label=stage_label(drawn, place.view.metric),
        y_label=place.view.y_label,
        curves=stage_curves(drawn, place.view.metric),
        levels=place.view.levels,
        y_range=place.view.y_range,
    )


def table(grid: Grid, view: View) -> Table:
    """Mean over stages and distance from a fresh network under each optimizer, the best mean of each in bold."""
    methods, shown_places = grid.methods(), [place for place in places((view,), OPTIMIZERS) if grid.has(place)]
    means = [[mean_of(grid.mean(method, place)) for place in shown_places] for method in methods]
    columns = range(1, 2 * len(shown_places) + 1, 2)
    return Table(
        name=view.name,
        caption=f"{view.title[:1].upper()}{view.title[1:]}: mean over the stages, and how far the last tenth is below "
        "a fresh vanilla network; mean ± standard deviation over seeds, the best mean of each column in bold.",
        header=("method", *(head for place in shown_places for head in heads(place)), "n"),
        rows=tuple(row(grid, method, shown_places) for method in methods),
        bold=best_of_columns(np.array(means).reshape(len(methods), len(shown_places)), columns=columns),
    )


def heads(place: Place) -> tuple[str, str]:
    """The two columns of an optimizer."""
    label = label_of_optimizer(place.optimizer)
    return label, f"{label} below fresh"


def row(grid: Grid, method: str, shown_places: list[Place]) -> tuple[str, ...]:
    """A method's line of the table, with the number of runs that ended."""
    cells = (
        cell for place in shown_places for cell in (shown(grid.mean(method, place)), shown(grid.below(method, place)))
    )
    counts = {len(grid.mean(method, place)) for place in shown_places} - {0} or {0}
    number = f"{min(counts)} to {max(counts)}" if len(counts) > 1 else str(*counts)
    return label_of(method), *cells, number
