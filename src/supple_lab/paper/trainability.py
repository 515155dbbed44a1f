"""Trainability grid: two problems by four optimizers, and the runs to report in each (section 5.1.1, appendix G.1.1).

The paper does not say which accuracy it draws. Both are shown and judged: online, the accuracy just before each update,
averaged over a stage, in training mode and so lower for networks that draw masks; and at the end of a stage, in
evaluation mode.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from supple_lab.data.base import Dataset
from supple_lab.data.digits import Digits
from supple_lab.data.idx import MNIST
from supple_lab.data.slice import Slice
from supple_lab.models.mlp import MLP
from supple_lab.optimizer import Optimizer
from supple_lab.paper.claims import words_of
from supple_lab.paper.compare import (
    Chosen,
    chosen,
    label_of,
    label_of_optimizer,
    mean_of,
    shown,
    stage_curves,
    stage_label,
    times,
)
from supple_lab.paper.fresh import (
    claim_kept,
    claim_lost,
    ends,
    first_of,
    fresh_accuracy,
    reference,
    something_to_keep,
    stand_in_notes,
)
from supple_lab.paper.groups import in_each, in_most, in_one, provided, under_both
from supple_lab.paper.notes import slip_notes
from supple_lab.paper.study import Condition, Study, StudyOptions
from supple_lab.paper.tables.search_space import ADAM_HIGH, ADAM_LOW, SGD_HIGH, SGD_LOW
from supple_lab.report.figure import ClaimRow, Figure, Level, Panel, Range, StudyReport, Table
from supple_lab.report.tables import best_of_columns
from supple_lab.report.verdict import Words, claim_above, claim_difference_above
from supple_lab.results.results import Results, Sample
from supple_lab.scenarios.base import Scenario
from supple_lab.scenarios.permuted_input import PermutedInput
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.spec import Supervised

HIGH_RATES = (ADAM_HIGH, SGD_HIGH)  # Figure 3
LOW_RATES = (ADAM_LOW, SGD_LOW)
OPTIMIZERS: tuple[Optimizer, ...] = (*HIGH_RATES, *LOW_RATES)


@dataclass(frozen=True, kw_only=True)
class View:
    """An accuracy of one of the problems: a column of the figures."""

    name: str
    title: str
    problem: str  # as the hyperparameters call it
    metric: str
    y_label: str
    levels: tuple[Level, ...] = ()
    y_range: Range | None = None  # none: what the curves take, for on permuted images they lie close together


ONLINE = View(
    name="permuted_online",
    title="permuted online",
    problem="permuted_input",
    metric="online_accuracy",
    y_label="accuracy before each update",
)
END_OF_STAGE = View(
    name="permuted_end_of_stage",
    title="permuted at end",
    problem="permuted_input",
    metric="train_accuracy",
    y_label="accuracy after the stage",
)
CHANCE = (Level(label="chance", value=0.1),)
RANDOM_ONLINE = View(
    name="random_label_online",
    title="random label online",
    problem="random_label",
    metric="online_accuracy",
    y_label="accuracy before each update",
    levels=CHANCE,
    y_range=(0.0, 1.02),  # room for a marker at 1
)
RANDOM_LABEL = View(
    name="random_label",
    title="random label at end",
    problem="random_label",
    metric="train_accuracy",
    y_label="accuracy after the stage",
    levels=CHANCE,
    y_range=(0.0, 1.02),
)
VIEWS = (ONLINE, END_OF_STAGE, RANDOM_ONLINE, RANDOM_LABEL)
READINGS = {
    "online": (ONLINE, RANDOM_ONLINE),
    "at the end of a stage": (END_OF_STAGE, RANDOM_LABEL),
}  # of both problems
SELECTED_BY = {"permuted_input": "online_accuracy", "random_label": "train_accuracy"}  # the mean over stages
Cell = tuple[str, Optimizer]  # problem, as the hyperparameters call it, and optimizer


@dataclass(frozen=True)
class Place:
    """One panel of the grid."""

    view: View
    optimizer: Optimizer

    @property
    def label(self) -> str:
        """What the panel is called."""
        return f"{self.view.title} ({label_of_optimizer(self.optimizer)})"


def places(views: tuple[View, ...], optimizers: tuple[Optimizer, ...]) -> tuple[Place, ...]:
    """The panels of these columns, row after row."""
    return tuple(Place(view, optimizer) for optimizer in optimizers for view in views)


@dataclass(frozen=True)
class Grid:
    """The runs to report, by problem and optimizer; a cell that the scale leaves out is not there."""

    cells: dict[Cell, Chosen]
    references: dict[Cell, Results]  # fresh vanilla networks

    def has(self, place: Place) -> bool:
        """Whether the study runs it at this scale."""
        return (place.view.problem, place.optimizer) in self.cells

    def at(self, place: Place) -> Chosen:
        """The runs of a panel, by method."""
        return self.cells.get((place.view.problem, place.optimizer), Chosen({}))

    def fresh(self, place: Place) -> Sample:
        """What a fresh vanilla network comes to, a number a seed."""
        references = self.references.get((place.view.problem, place.optimizer), Results(()))
        return fresh_accuracy(references, self.at(place).of("vanilla"), place.view.metric)

    def below(self, method: str, place: Place) -> Sample:
        """How far a method ends below a fresh vanilla network, seed by seed."""
        return self.fresh(place).minus(self.end(method, place))

    def first(self, method: str, place: Place) -> Sample:
        """What a method comes to on its first stage, a number a run."""
        return self.at(place).of(method).sample(lambda run: first_of(run.values(place.view.metric)))

    def end(self, method: str, place: Place) -> Sample:
        """What a method comes to in the end, a number a run."""
        return ends(self.at(place).of(method), place.view.metric)

    def mean(self, method: str, place: Place) -> Sample:
        """A method's mean over the stages, a number a run."""
        return self.at(place).of(method).stage_mean(place.view.metric)

    def methods(self) -> list[str]:
        """All methods of all cells, in the study's order."""
        return list(dict.fromkeys(name for cell in self.cells.values() for name in cell.by_method))

    def notes(self) -> tuple[str, ...]:
        """What was selected how, and where the reference was not run."""
        pairs = {
            f"{problem.replace('_', ' ')}, {label_of_optimizer(optimizer)}": (references, cell.of("vanilla"))
            for (problem, optimizer), cell in self.cells.items()
            for references in [self.references[problem, optimizer]]
        }
        return (*(note for cell in self.cells.values() for note in cell.notes), *stand_in_notes(pairs))


def grid_of(results: Results, cells: Sequence[Condition], order: StudyOptions) -> Grid:
    """The runs of each cell; a search is decided by the mean over stages, the paper's rule for trainability."""
    conditions = {(cell.experiment, cell.case): cell for cell in cells if isinstance(cell.case, Optimizer)}
    return Grid(
        {
            name: chosen(results, cell, order=order, metric=SELECTED_BY[cell.experiment], rule="stage_mean")
            for name, cell in conditions.items()
        },
        {name: reference(cell, order).of(results, order) for name, cell in conditions.items()},
    )


NAMED = ("drop_relu", "aid")  # with a high accuracy in all settings
DESIGNED = ("fourier", "crelu", "redo", "cbp")  # methods made against the loss of plasticity
Views = tuple[View, ...]
HALF = 0.5  # of what the vanilla network lost: a method that leaves more of it does not mitigate the loss


def claims(grid: Grid) -> tuple[ClaimRow, ...]:
    """All of them, in the paper's order."""
    return (
        vanilla_falls(grid),
        named_methods_keep("drop_relu_and_aid_keep_random_label_online", grid, RANDOM_ONLINE),
        named_methods_keep("drop_relu_and_aid_keep_random_label", grid, RANDOM_LABEL),
        named_methods_keep("drop_relu_and_aid_keep_permuted_online", grid, ONLINE),
        named_methods_keep("drop_relu_and_aid_keep_permuted_at_end", grid, END_OF_STAGE),
        designed_methods_beat_vanilla(grid),
        designed_methods_fall_somewhere(grid),
        shrink_and_l2_init_fail(grid),
        dropout_does_not_help(grid),
        identity_keeps(grid),
        stochastic_activations_keep(grid),
    )


def by_reading(decide: Callable[[Views], ClaimRow], words: Words) -> ClaimRow:
    """What the function decides from the online accuracies, and from those at the end of a stage: both must agree."""
    return under_both({reading: decide(views) for reading, views in READINGS.items()}, words)


def vanilla_falls(grid: Grid) -> ClaimRow:
    """Does the vanilla network end below a fresh one under both optimizers of Figure 3, on both problems?"""
    words = words_of("vanilla_falls")

    def falls(place: Place) -> ClaimRow:
        below, fresh = grid.below("vanilla", place), grid.fresh(place)
        row = claim_above(below, 0.0, quantity="last tenth below a fresh vanilla network", **words)
        return something_to_keep(row, fresh.of_seeds(below.seeds), words)

    return by_reading(
        lambda views: in_each({place.label: falls(place) for place in places(views, HIGH_RATES)}, words), words
    )


def keeps(grid: Grid, methods: Sequence[str], where: Sequence[Place], words: Words) -> ClaimRow:
    """Do the methods keep their plasticity in each of the places?"""
    rows = {
        f"{label_of(method)} on {place.label}": claim_kept(grid.end(method, place), grid.fresh(place), **words)
        for method in methods
        for place in where
    }
    return in_each(rows, words)


def named_methods_keep(key: str, grid: Grid, view: View) -> ClaimRow:
    """Do DropReLU and AID keep their plasticity with each of the four optimizers, by one accuracy?"""
    return keeps(grid, NAMED, places((view,), OPTIMIZERS), words_of(key))


def stochastic_activations_keep(grid: Grid) -> ClaimRow:
    """Do RReLU and DropReLU keep their plasticity in all eight?"""
    words = words_of("stochastic_activations_keep")
    return by_reading(lambda views: keeps(grid, ("rrelu", "drop_relu"), places(views, OPTIMIZERS), words), words)


def designed_methods_beat_vanilla(grid: Grid) -> ClaimRow:
    """Is each designed method above the vanilla network in most of all eight?"""
    words = words_of("designed_methods_beat_vanilla")

    def beats(method: str, place: Place) -> ClaimRow:
        ours, vanilla = grid.mean(method, place), grid.mean("vanilla", place)
        return claim_difference_above(ours, vanilla, quantity="stage mean minus vanilla's", **words)

    def each_in_most(views: Views) -> ClaimRow:
        eight = places(views, OPTIMIZERS)
        rows = {
            label_of(method): in_most({place.label: beats(method, place) for place in eight}, words)
            for method in DESIGNED
        }
        return in_each(rows, words)

    return by_reading(each_in_most, words)


def designed_methods_fall_somewhere(grid: Grid) -> ClaimRow:
    """Does each designed method lose its plasticity in at least one of all eight?"""
    words = words_of("designed_methods_fall_somewhere")

    def loses(method: str, place: Place) -> ClaimRow:
        return claim_lost(grid.end(method, place), grid.fresh(place), **words)

    def each_in_one(views: Views) -> ClaimRow:
        eight = places(views, OPTIMIZERS)
        rows = {
            label_of(method): in_one({place.label: loses(method, place) for place in eight}, words)
            for method in DESIGNED
        }
        return in_each(rows, words)

    return by_reading(each_in_one, words)


def shrink_and_l2_init_fail(grid: Grid) -> ClaimRow:
    """Do S&P and L2 Init lose their plasticity at the low learning rates?"""
    words = words_of("shrink_and_l2_init_fail_at_low_rates")

    def in_most_places(views: Views) -> ClaimRow:
        rows = {
            f"{label_of(method)} on {place.label}": claim_lost(grid.end(method, place), grid.fresh(place), **words)
            for method in ("shrink_perturb", "l2_init")
            for place in places(views, LOW_RATES)
        }
        return in_most(rows, words)

    return by_reading(in_most_places, words)


def dropout_does_not_help(grid: Grid) -> ClaimRow:
    """Does Dropout leave more than half of what the vanilla network lost, in most of all eight?"""
    words = words_of("dropout_does_not_help")

    def helps_not(place: Place) -> ClaimRow:
        dropout, vanilla = grid.below("dropout", place), grid.below("vanilla", place)
        quantity = "below a fresh vanilla network in the last tenth, Dropout minus half of vanilla"
        row = claim_difference_above(dropout, times(vanilla, HALF), quantity=quantity, **words)
        there_is_a_loss = claim_above(vanilla.of_seeds(dropout.seeds), 0.0, quantity="that of vanilla", **words)
        return provided(row, {"vanilla ends below a fresh network": there_is_a_loss})

    return by_reading(
        lambda views: in_most({place.label: helps_not(place) for place in places(views, OPTIMIZERS)}, words),
        words,
    )


def identity_keeps(grid: Grid) -> ClaimRow:
    """Does the deep linear network end no lower than a fresh one of its kind, in all eight?"""
    words = words_of("identity_keeps_plasticity")

    def keeps_its_level(place: Place) -> ClaimRow:
        first, end = grid.first("identity", place), grid.end("identity", place)
        return claim_kept(end, first, than="its own first stage", **words)

    return by_reading(
        lambda views: in_each({place.label: keeps_its_level(place) for place in places(views, OPTIMIZERS)}, words),
        words,
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

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        return tuple(one for cell in cells(order) for one in (cell, reference(cell, order)))

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        grid = grid_of(results, cells(order), order)
        return StudyReport(
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


def cells(order: StudyOptions) -> tuple[Condition, ...]:
    """Both problems under each optimizer of the scale."""
    optimizers = HIGH_RATES if order.scale == "quick" else OPTIMIZERS
    return tuple(condition(problem, optimizer, order) for problem in PROBLEMS for optimizer in optimizers)


def condition(problem: str, optimizer: Optimizer, order: StudyOptions) -> Condition:
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
