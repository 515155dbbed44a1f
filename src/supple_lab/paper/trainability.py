"""Trainability (section 5.1.1, appendix G.1.1): who can still learn, on two problems under four optimizers.

The paper does not say which accuracy it draws. Both are shown and judged: online, the accuracy just before each update,
averaged over a stage, in training mode and so lower for networks that draw masks; and at the end of a stage, in
evaluation mode.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from supple_lab.data.base import Dataset
from supple_lab.data.digits import Digits
from supple_lab.data.idx import MNIST
from supple_lab.data.slice import Slice
from supple_lab.models.mlp import MLP
from supple_lab.optimizer import Optimizer
from supple_lab.paper.claims import (
    FRESH,
    Above,
    Agree,
    Claim,
    Each,
    Kept,
    Lost,
    Most,
    Number,
    OnlyIf,
    Rule,
    Some,
    last_tenth,
    learns,
    number,
    shortfall,
)
from supple_lab.paper.compare import BAND, label_of, label_of_optimizer, sample_table, span_of, stage_panel
from supple_lab.paper.method_runs import MethodRuns, chosen, methods_of, reference, selection_notes, stand_in_notes
from supple_lab.paper.networks import slip_notes
from supple_lab.paper.study import ByScale, Condition, Scale, Study, StudyOptions
from supple_lab.paper.tables import ADAM_HIGH, ADAM_LOW, SGD_HIGH, SGD_LOW, Case
from supple_lab.report.figure import Figure, Level, Panel, StudyReport, Table
from supple_lab.results.results import Results
from supple_lab.scenarios.base import Scenario
from supple_lab.scenarios.permuted_input import PermutedInput
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.spec import Supervised

HIGH_RATES = (ADAM_HIGH, SGD_HIGH)  # Figure 3
LOW_RATES = (ADAM_LOW, SGD_LOW)
OPTIMIZERS: tuple[Optimizer, ...] = (*HIGH_RATES, *LOW_RATES)
DESIGNED = ("fourier", "crelu", "redo", "cbp")  # methods made against the loss of plasticity
HALF = 0.5  # of what the vanilla network lost: a method that leaves more of it does not mitigate the loss


class View(NamedTuple):
    """An accuracy of one of the problems: a column of the figures."""

    name: str
    title: str
    problem: str  # as the tables call it
    metric: str


ONLINE = View("permuted_online", "permuted online", "permuted_input", "online_accuracy")
END_OF_STAGE = View("permuted_end_of_stage", "permuted at end", "permuted_input", "train_accuracy")
RANDOM_ONLINE = View("random_label_online", "random label online", "random_label", "online_accuracy")
RANDOM_LABEL = View("random_label", "random label at end", "random_label", "train_accuracy")
VIEWS = (ONLINE, END_OF_STAGE, RANDOM_ONLINE, RANDOM_LABEL)
READINGS = {  # of both problems
    "online": (ONLINE, RANDOM_ONLINE),
    "at the end of a stage": (END_OF_STAGE, RANDOM_LABEL),
}
Y_LABELS = {"online_accuracy": "accuracy before each update", "train_accuracy": "accuracy after the stage"}
SELECTED_BY = {"permuted_input": "online_accuracy", "random_label": "train_accuracy"}  # the mean over stages


@dataclass(frozen=True)
class Grid:
    """The runs to report, by problem and optimizer; a cell that the scale leaves out is not there."""

    cells: dict[tuple[str, Case | None], MethodRuns]
    views: tuple[View, ...] = VIEWS  # that a claim is about

    def of(self, view: View, optimizer: Optimizer) -> MethodRuns:
        return replace(self.cells.get((view.problem, optimizer), MethodRuns()), metric=view.metric)

    def at(self, *optimizers: Optimizer) -> dict[str, MethodRuns]:
        """Each panel under these optimizers, row after row."""
        return {title_of(view, optimizer): self.of(view, optimizer) for optimizer in optimizers for view in self.views}

    def all_eight(self) -> dict[str, MethodRuns]:
        return self.at(*OPTIMIZERS)

    def methods_at(self, methods: tuple[str, ...], *optimizers: Optimizer) -> dict[str, MethodRuns]:
        """Each of the methods in each panel under these optimizers."""
        return {
            f"{label_of(method)} on {title}": runs.called(each=method)
            for method in methods
            for title, runs in self.at(*optimizers).items()
        }

    def called(self, **methods: str) -> "Grid":
        return replace(self, cells={name: runs.called(**methods) for name, runs in self.cells.items()})


def title_of(view: View, optimizer: Optimizer) -> str:
    return f"{view.title} ({label_of_optimizer(optimizer)})"


def stage_mean(method: str) -> Number:
    return number("stage mean", method, lambda runs: runs.stage_mean(method))


def by_both(rule: Rule) -> Agree:
    """The rule by online accuracy and by that at the end of a stage."""
    readings = READINGS.items()
    return Agree("by both accuracies", lambda grid: {name: replace(grid, views=own) for name, own in readings}, rule)


def designed(rule: Rule) -> Each:
    """The rule for each of the methods made against the loss of plasticity."""
    return Each(
        "for Fourier, CReLU, ReDo and CBP",
        lambda grid: {label_of(method): grid.called(each=method) for method in DESIGNED},
        rule,
    )


def named_keep(key: str, view: View, problem: str, accuracy: str) -> Claim:
    return Claim(
        key=f"drop_relu_and_aid_keep_{key}",
        paper="DropReLU and AID reach a high accuracy in all settings.",
        claim=f"DropReLU and AID keep their plasticity on {problem} MNIST, by {accuracy}.",
        rule=Each(
            f"for DropReLU and AID on {problem} MNIST with each of the four optimizers, by {accuracy}",
            lambda grid: replace(grid, views=(view,)).methods_at(("drop_relu", "aid"), *OPTIMIZERS),
            Kept(last_tenth("each"), FRESH),
        ),
    )


APPENDIX = "G.1.1 Extended Results for various conditions"
EIGHT = "in all eight"
VANILLA, DROPOUT = shortfall("vanilla"), shortfall("dropout")
IDENTITY_FIRST = Number("its first stage", lambda runs: runs.of("identity").first(runs.metric))
CLAIMS = (
    Claim(
        key="vanilla_falls",
        paper="The vanilla network's training accuracy gradually declines with SGD at 3e-2 and with Adam at 1e-3.",
        claim="The vanilla network's accuracy declines over the stages.",
        rule=by_both(
            Each(
                "on both MNIST problems with SGD 3e-2 and with Adam 1e-3",
                lambda grid: grid.at(*HIGH_RATES),
                OnlyIf(learns(FRESH.in_seeds_of(VANILLA)), Above(VANILLA)),
            )
        ),
    ),
    named_keep("random_label_online", RANDOM_ONLINE, "random label", "online accuracy"),
    named_keep("random_label", RANDOM_LABEL, "random label", "accuracy at the end of a stage"),
    named_keep("permuted_online", ONLINE, "permuted", "online accuracy"),
    named_keep("permuted_at_end", END_OF_STAGE, "permuted", "accuracy at the end of a stage"),
    Claim(
        key="designed_methods_beat_vanilla",
        paper="Fourier, CReLU, ReDo and CBP improve plasticity under most conditions.",
        claim="Fourier, CReLU, ReDo and CBP each do better than the vanilla network in most conditions.",
        rule=by_both(
            designed(
                Most("in most of all eight", Grid.all_eight, Above(stage_mean("each") - stage_mean("vanilla"))),
            )
        ),
    ),
    Claim(
        key="designed_methods_fall_somewhere",
        paper="The same methods fail to retain accuracy in certain conditions.",
        claim="Fourier, CReLU, ReDo and CBP each lose their plasticity somewhere.",
        rule=by_both(
            designed(
                Some("in at least one of all eight", Grid.all_eight, Lost(last_tenth("each"), FRESH)),
            )
        ),
    ),
    Claim(
        key="shrink_and_l2_init_fail_at_low_rates",
        paper="S&P and L2 Init often struggle at a low learning rate.",
        claim="S&P and L2 Init lose their plasticity at the low learning rates.",
        rule=by_both(
            Most(
                "in most of eight: S&P and L2 Init with Adam 1e-4 and SGD 3e-3 on both problems",
                lambda grid: grid.methods_at(("shrink_perturb", "l2_init"), *LOW_RATES),
                Lost(last_tenth("each"), FRESH),
            )
        ),
    ),
    Claim(
        key="dropout_does_not_help",
        paper="Dropout fails to mitigate the loss in most cases compared to the vanilla network.",
        claim="Dropout leaves most of the vanilla network's loss in most conditions.",
        rule=by_both(
            Most(
                "in most of all eight",
                Grid.all_eight,
                OnlyIf(
                    {"vanilla ends below a fresh network": Above(VANILLA.in_seeds_of(DROPOUT))},
                    Above(DROPOUT - HALF * VANILLA),
                ),
            )
        ),
    ),
    Claim(
        key="identity_keeps_plasticity",
        section=APPENDIX,
        paper="Linear networks do not suffer from plasticity loss.",
        claim="The deep linear network keeps its plasticity, whatever its level.",
        rule=by_both(Each(EIGHT, Grid.all_eight, Kept(last_tenth("identity"), IDENTITY_FIRST, "its own first stage"))),
    ),
    Claim(
        key="stochastic_activations_keep",
        section=APPENDIX,
        paper="Stochastic activations such as RReLU, DropReLU and AID show strong trainability across settings.",
        claim="RReLU and DropReLU keep their plasticity, too.",
        rule=by_both(
            Each(
                f"for RReLU and DropReLU {EIGHT}",
                lambda grid: grid.methods_at(("rrelu", "drop_relu"), *OPTIMIZERS),
                Kept(last_tenth("each"), FRESH),
            )
        ),
    ),
)

PROBLEMS = ("permuted_input", "random_label")
IN_APPENDIX = ("rrelu", "identity", "sigmoid", "tanh")  # drawn in the grid alone, as in the paper

MODELS = ByScale(smoke=MLP(width=16, num_hidden=2), quick=MLP(width=128), paper=MLP())
DATASETS: ByScale[Dataset] = ByScale(
    smoke=Slice(of=Digits(), num_train=128, num_test=10), quick=Digits(), paper=MNIST()
)
SCENARIOS: ByScale[dict[str, Scenario]] = ByScale(
    smoke={
        "permuted_input": PermutedInput(num_stages=2, batch_size=64),
        "random_label": RandomLabel(num_stages=2, epochs=1, num_images=128),
    },
    # 6,000 and 10,000 steps: what 72 runs can have in minutes on two cores.
    quick={
        "permuted_input": PermutedInput(num_stages=60, batch_size=16),
        "random_label": RandomLabel(num_stages=10, epochs=40),
    },
    paper={"permuted_input": PermutedInput(), "random_label": RandomLabel()},
)
# The optimizers of Figure 3, and one method of each kind besides the vanilla network.
QUICK_METHODS = ("vanilla", "dropout", "shrink_perturb", "cbp", "crelu", "aid")

SCALE_NOTES: Mapping[Scale, tuple[str, ...]] = {
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
        "One network learns a problem, then another of the same kind, hundreds of times over: pixels in another order, "
        "or other labels. Which methods learn the last as well as the first, and does it depend on the optimizer?"
    )
    section = "5.1.1 Trainability"
    claims = CLAIMS

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        return tuple(one for cell in cells(order) for one in (cell, reference(cell, order)))

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        groups = {cell.label: runs_of(results, cell, order) for cell in cells(order)}
        grid = Grid({(cell.experiment, cell.case): groups[cell.label] for cell in cells(order)})
        return StudyReport(
            figures=figures(grid),
            tables=tuple(table(grid, view) for view in VIEWS),
            claims=self.decided(grid, order),
            notes=(
                *SCALE_NOTES.get(order.scale, ()),
                ACCURACIES,
                *slip_notes(order, cells(order), results),
                *selection_notes(groups),
                *stand_in_notes(groups),
            ),
        )


def cells(order: StudyOptions) -> tuple[Condition, ...]:
    optimizers = HIGH_RATES if order.scale == "quick" else OPTIMIZERS
    return tuple(condition(problem, optimizer, order) for problem in PROBLEMS for optimizer in optimizers)


def condition(problem: str, optimizer: Optimizer, order: StudyOptions) -> Condition:
    return Condition(
        label=f"{problem.replace('_', ' ')}, {label_of_optimizer(optimizer)}",
        problem=Supervised(scenario=SCENARIOS.at(order.scale)[problem], dataset=DATASETS.at(order.scale)),
        model=MODELS.at(order.scale),
        experiment=problem,
        case=optimizer,
        methods=QUICK_METHODS if order.scale == "quick" else (),
    )


def runs_of(results: Results, cell: Condition, order: StudyOptions) -> MethodRuns:
    """The runs of a cell; a search is decided by the mean over stages, the paper's rule for trainability."""
    runs = chosen(results, cell, order=order, metric=SELECTED_BY[cell.experiment], rule="stage_mean")
    return replace(runs, references=reference(cell, order).of(results, order))


def figures(grid: Grid) -> tuple[Figure, ...]:
    """Figure 3, and the grid of the appendix if the low learning rates are part of the study."""

    def figure(name: str, words: str, optimizers: tuple[Optimizer, ...], left_out: tuple[str, ...] = ()) -> Figure:
        return Figure(
            name=name,
            caption=f"{words} Accuracy on each stage; {BAND}",
            panels=tuple(panel(grid, view, optimizer, left_out=left_out) for optimizer in optimizers for view in VIEWS),
            columns=len(VIEWS),
        )

    words = "The higher learning rates (the paper's Figure 3)."
    if not any(optimizer in LOW_RATES for _, optimizer in grid.cells):
        return (figure("trainability", words, HIGH_RATES),)
    whole = "All optimizers and activations (the paper's appendix G.1.1)."
    return (
        figure("trainability", words, HIGH_RATES, left_out=IN_APPENDIX),
        figure("trainability_grid", whole, OPTIMIZERS),
    )


def panel(grid: Grid, view: View, optimizer: Optimizer, *, left_out: tuple[str, ...]) -> Panel:
    """One accuracy under one optimizer; random labels from 0 to 1, permuted images, which lie close, as they are."""
    by_method = grid.of(view, optimizer).by_method
    is_random = view.problem == "random_label"
    return stage_panel(
        title_of(view, optimizer),
        {name: runs for name, runs in by_method.items() if name not in left_out},
        view.metric,
        y_label=Y_LABELS[view.metric],
        levels=(Level(label="chance", value=0.1),) if is_random else (),
        y_range=(0.0, 1.02) if is_random else None,  # room for a marker
    )


def table(grid: Grid, view: View) -> Table:
    """Mean over stages and distance from a fresh network under each optimizer, the best mean of each in bold."""
    optimizers = [optimizer for optimizer in OPTIMIZERS if (view.problem, optimizer) in grid.cells]
    groups = {label_of_optimizer(optimizer): grid.of(view, optimizer) for optimizer in optimizers}
    columns: dict[str, Callable[[str], object]] = {"method": label_of}
    for name, runs in groups.items():
        columns[name] = runs.stage_mean
        columns[f"{name} below fresh"] = runs.below
    return sample_table(
        view.name,
        f"{view.title[:1].upper()}{view.title[1:]}: mean over the stages, and how far the last tenth is below a fresh "
        "vanilla network; mean ± standard deviation over seeds, the best mean of each column in bold.",
        rows=methods_of({str(cell): runs for cell, runs in grid.cells.items()}),
        columns={**columns, "n": lambda method: span_of(len(runs.stage_mean(method)) for runs in groups.values())},
        best=groups,
    )
