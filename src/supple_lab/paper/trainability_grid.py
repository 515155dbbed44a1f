"""Trainability grid: two problems by four optimizers, and the runs to report in each (section 5.1.1, appendix G.1.1).

The paper does not say which accuracy it draws. Both are shown and judged: online, the accuracy just before each update,
averaged over a stage, in training mode and so lower for networks that draw masks; and at the end of a stage, in
evaluation mode.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from supple_lab.optimizer import Optimizer
from supple_lab.paper.compare import MethodRuns, chosen, label_of_optimizer
from supple_lab.paper.fresh import ends, first_of, fresh_accuracy, reference, stand_in_notes
from supple_lab.paper.study import Condition, StudyOptions
from supple_lab.paper.tables import ADAM_HIGH, ADAM_LOW, SGD_HIGH, SGD_LOW
from supple_lab.report.figure import Level, Range
from supple_lab.results.results import Results, Sample

HIGH_RATES = (ADAM_HIGH, SGD_HIGH)  # Figure 3
LOW_RATES = (ADAM_LOW, SGD_LOW)
OPTIMIZERS: tuple[Optimizer, ...] = (*HIGH_RATES, *LOW_RATES)


Y_LABELS = {"online_accuracy": "accuracy before each update", "train_accuracy": "accuracy after the stage"}


class View(NamedTuple):
    """An accuracy of one of the problems: a column of the figures."""

    name: str
    title: str
    problem: str  # as the tables call it
    metric: str

    @property
    def levels(self) -> tuple[Level, ...]:
        """What the curves are drawn beside."""
        return (Level(label="chance", value=0.1),) if self.problem == "random_label" else ()

    @property
    def y_range(self) -> Range | None:
        """From 0 to 1 with room for a marker; on permuted images what the curves take, which lie close together."""
        return (0.0, 1.02) if self.problem == "random_label" else None


ONLINE = View("permuted_online", "permuted online", "permuted_input", "online_accuracy")
END_OF_STAGE = View("permuted_end_of_stage", "permuted at end", "permuted_input", "train_accuracy")
RANDOM_ONLINE = View("random_label_online", "random label online", "random_label", "online_accuracy")
RANDOM_LABEL = View("random_label", "random label at end", "random_label", "train_accuracy")
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

    cells: dict[Cell, MethodRuns]
    references: dict[Cell, Results]  # fresh vanilla networks

    def has(self, place: Place) -> bool:
        """Whether the study runs it at this scale."""
        return (place.view.problem, place.optimizer) in self.cells

    def at(self, place: Place) -> MethodRuns:
        """The runs of a panel, by method."""
        return self.cells.get((place.view.problem, place.optimizer), MethodRuns({}))

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
