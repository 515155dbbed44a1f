"""Trainability grid: two problems by four optimizers, and the runs to report in each (section 5.1.1, appendix G.1.1).

The paper does not say which accuracy it draws. Permuted pixels are seen once, so the accuracy just before each update,
averaged over a stage, is the natural one; in training mode it is lower for networks that draw masks. The accuracy at
the end of a stage, in evaluation mode, is shown beside it. On random labels the end of the stage is all that counts.
"""

from dataclasses import dataclass

from supple_lab.report.panel import Level, Range
from supple_lab.report.results import Results
from supple_lab.report.sample import Sample
from supple_lab.runs.optimizer import Optimizer
from supple_lab.studies.chosen import Chosen, chosen
from supple_lab.studies.condition import Condition
from supple_lab.studies.fall import beginnings, ends, falls
from supple_lab.studies.hyperparameters.search_space import ADAM_HIGH, ADAM_LOW, SGD_HIGH, SGD_LOW
from supple_lab.studies.labels import label_of_optimizer
from supple_lab.studies.order import Order

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
RANDOM_LABEL = View(
    name="random_label",
    title="random label",
    problem="random_label",
    metric="train_accuracy",
    y_label="accuracy after the stage",
    levels=(Level(label="chance", value=0.1),),
    y_range=(0.0, 1.02),  # room for a marker at 1
)
VIEWS = (ONLINE, END_OF_STAGE, RANDOM_LABEL)
SELECTED_BY = {"permuted_input": "online_accuracy", "random_label": "train_accuracy"}  # the mean over stages


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


ALL_EIGHT = places((ONLINE, RANDOM_LABEL), OPTIMIZERS)
WITHOUT_MASKS = places((END_OF_STAGE, RANDOM_LABEL), OPTIMIZERS)  # the same eight, in evaluation mode


@dataclass(frozen=True)
class Grid:
    """The runs to report, by problem and optimizer; a cell that the scale leaves out is not there."""

    cells: dict[tuple[str, Optimizer], Chosen]

    def has(self, place: Place) -> bool:
        """Whether the study runs it at this scale."""
        return (place.view.problem, place.optimizer) in self.cells

    def at(self, place: Place) -> Chosen:
        """The runs of a panel, by method."""
        return self.cells.get((place.view.problem, place.optimizer), Chosen({}))

    def fall(self, method: str, place: Place) -> Sample:
        """What a method lost over the stages, a number a run."""
        return falls(self.at(place).of(method), place.view.metric)

    def beginning(self, method: str, place: Place) -> Sample:
        """What a method came to before it could lose anything, a number a run."""
        return beginnings(self.at(place).of(method), place.view.metric)

    def end(self, method: str, place: Place) -> Sample:
        """What a method came to in the end, a number a run."""
        return ends(self.at(place).of(method), place.view.metric)

    def mean(self, method: str, place: Place) -> Sample:
        """A method's mean over the stages, a number a run."""
        return self.at(place).of(method).stage_mean(place.view.metric)

    def methods(self) -> list[str]:
        """All methods of all cells, in the study's order."""
        return list(dict.fromkeys(name for cell in self.cells.values() for name in cell.by_method))

    def notes(self) -> tuple[str, ...]:
        """What was selected how."""
        return tuple(note for cell in self.cells.values() for note in cell.notes)


def grid_of(results: Results, conditions: tuple[Condition, ...], order: Order) -> Grid:
    """The runs of each condition; a search is decided by the mean over stages, the paper's rule for trainability."""
    return Grid(
        {
            (condition.experiment, condition.case): chosen(
                results, condition, order=order, metric=SELECTED_BY[condition.experiment], rule="stage_mean"
            )
            for condition in conditions
            if isinstance(condition.case, Optimizer)
        }
    )
