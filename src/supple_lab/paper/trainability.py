"""Trainability (section 5.1.1, appendix G.1.1): who can still learn, on two problems under four optimizers."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from supple_lab.data.base import Dataset
from supple_lab.data.digits import Digits
from supple_lab.data.idx import MNIST
from supple_lab.data.slice import Slice
from supple_lab.models.mlp import MLP
from supple_lab.optimizer import Optimizer
from supple_lab.paper.claims import (
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
    learns,
    number,
)
from supple_lab.paper.compare import (
    label_of,
    label_of_optimizer,
    mean_of,
    shown,
    stage_curves,
    stage_label,
)
from supple_lab.paper.fresh import reference
from supple_lab.paper.notes import slip_notes
from supple_lab.paper.study import Condition, Study, StudyOptions
from supple_lab.paper.trainability_grid import (
    END_OF_STAGE,
    HIGH_RATES,
    LOW_RATES,
    ONLINE,
    OPTIMIZERS,
    RANDOM_LABEL,
    RANDOM_ONLINE,
    READINGS,
    VIEWS,
    Y_LABELS,
    Grid,
    Place,
    View,
    grid_of,
    places,
)
from supple_lab.report.figure import Figure, Panel, StudyReport, Table
from supple_lab.report.tables import best_of_columns
from supple_lab.results.results import Results, Sample
from supple_lab.scenarios.base import Scenario
from supple_lab.scenarios.permuted_input import PermutedInput
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.spec import Supervised

DESIGNED = ("fourier", "crelu", "redo", "cbp")  # methods made against the loss of plasticity
HALF = 0.5  # of what the vanilla network lost: a method that leaves more of it does not mitigate the loss


@dataclass(frozen=True)
class At:
    """What a rule is asked of: the grid, an accuracy on both problems, then a method or a panel of it."""

    grid: Grid
    views: tuple[View, ...] = VIEWS
    method: str = ""
    place: Place | None = None

    def at(self, *optimizers: Optimizer) -> "dict[str, At]":
        """Each panel under these optimizers."""
        return {place.label: replace(self, place=place) for place in places(self.views, optimizers)}

    def methods_at(self, methods: tuple[str, ...], *optimizers: Optimizer) -> "dict[str, At]":
        """Each of the methods in each panel under these optimizers."""
        return {
            f"{label_of(method)} on {name}": replace(case, method=method)
            for method in methods
            for name, case in self.at(*optimizers).items()
        }

    def of(self, method: str) -> "At":
        """The same, of this method."""
        return replace(self, method=method)

    def read(self, read: Callable[[Grid, str, Place], Sample], method: str) -> Sample:
        """A number of the method in the panel; of the case's own if it is named each."""
        assert self.place is not None
        return read(self.grid, self.method if method == "each" else method, self.place)


def end(method: str) -> Number:
    """The last tenth."""
    return number("last tenth", method, lambda case: case.read(Grid.end, method))


def below(method: str) -> Number:
    """How far the last tenth is below a fresh vanilla network."""
    return number("shortfall", method, lambda case: case.read(Grid.below, method))


def stage_mean(method: str) -> Number:
    """The mean over the stages."""
    return number("stage mean", method, lambda case: case.read(Grid.mean, method))


def by_both(rule: Rule) -> Agree:
    """The rule by online accuracy and by that at the end of a stage."""
    return Agree("by both accuracies", lambda grid: {name: At(grid, views) for name, views in READINGS.items()}, rule)


FRESH = Number("accuracy of a fresh vanilla network", lambda case: case.grid.fresh(case.place))
IDENTITY_FIRST = Number("its first stage", lambda case: case.grid.first("identity", case.place))
EIGHT = "in all eight"


def all_eight(case: At) -> dict[str, At]:
    """Each panel of an accuracy."""
    return case.at(*OPTIMIZERS)


def designed(where: str, rule: Rule) -> Each:
    """The rule for each of the methods made against the loss of plasticity."""
    return Each(where, lambda case: {label_of(method): case.of(method) for method in DESIGNED}, rule)


def named_keep(key: str, view: View, problem: str, accuracy: str) -> Claim:
    """The claim that DropReLU and AID keep their plasticity with each of the four optimizers, by one accuracy."""
    return Claim(
        key=f"drop_relu_and_aid_keep_{key}",
        section=MAIN,
        paper="DropReLU and AID reach a high accuracy in all settings.",
        claim=f"DropReLU and AID keep their plasticity on {problem} MNIST, by {accuracy}.",
        rule=Each(
            f"for DropReLU and AID on {problem} MNIST with each of the four optimizers, by {accuracy}",
            lambda grid: At(grid, (view,)).methods_at(("drop_relu", "aid"), *OPTIMIZERS),
            Kept(end("each"), FRESH),
        ),
    )


MAIN, APPENDIX = "5.1.1 Trainability", "G.1.1 Extended Results for various conditions"
CLAIMS = (
    Claim(
        key="vanilla_falls",
        section=MAIN,
        paper="The vanilla network's training accuracy gradually declines with SGD at 3e-2 and with Adam at 1e-3.",
        claim="The vanilla network's accuracy declines over the stages.",
        rule=by_both(
            Each(
                "on both MNIST problems with SGD 3e-2 and with Adam 1e-3",
                lambda case: case.at(*HIGH_RATES),
                OnlyIf(learns(FRESH.in_seeds_of(below("vanilla"))), Above(below("vanilla"))),
            )
        ),
    ),
    named_keep("random_label_online", RANDOM_ONLINE, "random label", "online accuracy"),
    named_keep("random_label", RANDOM_LABEL, "random label", "accuracy at the end of a stage"),
    named_keep("permuted_online", ONLINE, "permuted", "online accuracy"),
    named_keep("permuted_at_end", END_OF_STAGE, "permuted", "accuracy at the end of a stage"),
    Claim(
        key="designed_methods_beat_vanilla",
        section=MAIN,
        paper="Fourier, CReLU, ReDo and CBP improve plasticity under most conditions.",
        claim="Fourier, CReLU, ReDo and CBP each do better than the vanilla network in most conditions.",
        rule=by_both(
            designed(
                "for Fourier, CReLU, ReDo and CBP",
                Most("in most of all eight", all_eight, Above(stage_mean("each") - stage_mean("vanilla"))),
            )
        ),
    ),
    Claim(
        key="designed_methods_fall_somewhere",
        section=MAIN,
        paper="The same methods fail to retain accuracy in certain conditions.",
        claim="Fourier, CReLU, ReDo and CBP each lose their plasticity somewhere.",
        rule=by_both(
            designed(
                "for Fourier, CReLU, ReDo and CBP",
                Some("in at least one of all eight", all_eight, Lost(end("each"), FRESH)),
            )
        ),
    ),
    Claim(
        key="shrink_and_l2_init_fail_at_low_rates",
        section=MAIN,
        paper="S&P and L2 Init often struggle at a low learning rate.",
        claim="S&P and L2 Init lose their plasticity at the low learning rates.",
        rule=by_both(
            Most(
                "in most of eight: S&P and L2 Init with Adam 1e-4 and SGD 3e-3 on both problems",
                lambda case: case.methods_at(("shrink_perturb", "l2_init"), *LOW_RATES),
                Lost(end("each"), FRESH),
            )
        ),
    ),
    Claim(
        key="dropout_does_not_help",
        section=MAIN,
        paper="Dropout fails to mitigate the loss in most cases compared to the vanilla network.",
        claim="Dropout leaves most of the vanilla network's loss in most conditions.",
        rule=by_both(
            Most(
                "in most of all eight",
                all_eight,
                OnlyIf(
                    {"vanilla ends below a fresh network": Above(below("vanilla").in_seeds_of(below("dropout")))},
                    Above(below("dropout") - HALF * below("vanilla")),
                ),
            )
        ),
    ),
    Claim(
        key="identity_keeps_plasticity",
        section=APPENDIX,
        paper="Linear networks do not suffer from plasticity loss.",
        claim="The deep linear network keeps its plasticity, whatever its level.",
        rule=by_both(Each(EIGHT, all_eight, Kept(end("identity"), IDENTITY_FIRST, "its own first stage"))),
    ),
    Claim(
        key="stochastic_activations_keep",
        section=APPENDIX,
        paper="Stochastic activations such as RReLU, DropReLU and AID show strong trainability across settings.",
        claim="RReLU and DropReLU keep their plasticity, too.",
        rule=by_both(
            Each(
                f"for RReLU and DropReLU {EIGHT}",
                lambda case: case.methods_at(("rrelu", "drop_relu"), *OPTIMIZERS),
                Kept(end("each"), FRESH),
            )
        ),
    ),
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
    claims = CLAIMS

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        return tuple(one for cell in cells(order) for one in (cell, reference(cell, order)))

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        grid = grid_of(results, cells(order), order)
        return StudyReport(
            figures=figures(grid),
            tables=tuple(table(grid, view) for view in VIEWS),
            claims=self.decided(grid, order),
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
    """Figure 3, and the grid of the appendix if the low learning rates are part of the study."""
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
        y_label=Y_LABELS[place.view.metric],
        curves=stage_curves(drawn, place.view.metric),
        levels=place.view.levels,
        y_range=place.view.y_range,
    )


def table(grid: Grid, view: View) -> Table:
    """Mean over stages and distance from a fresh network under each optimizer, the best mean of each in bold."""
    methods, shown_places = grid.methods(), [place for place in places((view,), OPTIMIZERS) if grid.has(place)]
    means = [[mean_of(grid.mean(method, place)) for place in shown_places] for method in methods]
    columns = range(1, 2 * len(shown_places) + 1, 2)
    names = [label_of_optimizer(place.optimizer) for place in shown_places]
    return Table(
        name=view.name,
        caption=f"{view.title[:1].upper()}{view.title[1:]}: mean over the stages, and how far the last tenth is below "
        "a fresh vanilla network; mean ± standard deviation over seeds, the best mean of each column in bold.",
        header=("method", *(f"{name}{more}" for name in names for more in ("", " below fresh")), "n"),
        rows=tuple(row(grid, method, shown_places) for method in methods),
        bold=best_of_columns(np.array(means).reshape(len(methods), len(shown_places)), columns=columns),
    )


def row(grid: Grid, method: str, shown_places: list[Place]) -> tuple[str, ...]:
    """A method's line of the table, with the number of runs that ended."""
    cells = (
        cell for place in shown_places for cell in (shown(grid.mean(method, place)), shown(grid.below(method, place)))
    )
    counts = {len(grid.mean(method, place)) for place in shown_places} - {0} or {0}
    number = f"{min(counts)} to {max(counts)}" if len(counts) > 1 else str(*counts)
    return label_of(method), *cells, number
