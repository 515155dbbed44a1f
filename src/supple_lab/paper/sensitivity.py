"""Sensitivity (appendix G.2.2): AID at several p and learning rates in continual full, against full reset."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from supple.methods import UseAID
from supple_lab.optimizer import Adam, Optimizer
from supple_lab.paper.claims import Above, Claim, Each, Most, Number
from supple_lab.paper.compare import label_of, mean_of, sample_table
from supple_lab.paper.method_runs import NO_RUNS
from supple_lab.paper.networks import LOOKED_AT, Network, NetworkStudy, final_accuracy, networks
from supple_lab.paper.study import ByScale, Condition, StudyOptions
from supple_lab.paper.tables import Setting
from supple_lab.report.figure import Figure, HeatMap, Level, StudyReport, Table
from supple_lab.report.tables import ABSENT
from supple_lab.results.results import Results, Sample
from supple_lab.scenarios.continual import ContinualFull as Scenario

SCENARIOS = ByScale(
    smoke=Scenario(num_stages=2, epochs=1, batch_size=20),
    quick=Scenario(num_stages=5, epochs=40, batch_size=16),
    paper=Scenario(),
)
FEW_STEPS = {1e-3: 3e-3, 1e-4: 3e-4}  # AID's rates on digits, on either side of the 1e-3 of full reset
NOT_RUN = final_accuracy(NO_RUNS)
Cell = tuple[float, float]  # learning rate and p


@dataclass(frozen=True)
class Grid:
    """One network's final accuracies: AID's by cell, full reset's, and those of methods that an order adds."""

    cells: Mapping[Cell, Sample] = field(default_factory=dict)  # every cell that was asked for, empty if nothing ended
    reset: Sample = NOT_RUN
    others: Mapping[str, Sample] = field(default_factory=dict)  # by method


ABOVE_RESET = Claim(
    key="aid_above_reset_in_most_cells",
    paper="AID beats full reset at most combinations of p in 0.6 to 0.9 and learning rates 0.001 and 0.0001.",
    claim="AID beats full reset whatever p and learning rate, in most cells.",
    rule=Each(
        "on each of the three",
        dict,
        Most(
            "in most of the 8 cells",
            lambda grid: {f"p {p:g} at {rate:g}": (own, grid.reset) for (rate, p), own in grid.cells.items()},
            Above(Number("final test accuracy of AID minus that of full reset", lambda pair: pair[0].minus(pair[1]))),
        ),
    ),
)


class Sensitivity(NetworkStudy):
    """AID at p from 0.6 to 0.9 and two learning rates on the three networks."""

    name = "sensitivity"
    title = "Sensitivity: AID at several p and learning rates"
    question = "In continual full, does AID end above full reset whatever its p and learning rate?"
    section = "G.2.2 Hyperparameter Sensitivity"
    claims = (ABOVE_RESET,)
    quick = "5 stages of 40 epochs with 40 images more at each, batches of 16"
    quick_settings = (
        "AID's two rates are three times the paper's, for the steps are few; full reset has 0.001. " + LOOKED_AT
    )
    left_out = "ResNet-18, which needs a longer training at these p where it is slim, and VGG-16"

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        cases = ("cnn",) if order.scale == "quick" else self.cases
        return tuple(condition_of(network, order) for network in networks(order, *cases))

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        grids = {condition.label: grid_of(results, condition, order) for condition in self.conditions(order)}
        return StudyReport(
            figures=(
                Figure(
                    name="sensitivity",
                    caption="Test accuracy after the last stage, mean and standard deviation over seeds; the mark on "
                    "the colour bar is full reset, cells above it are bold.",
                    panels=tuple(heat_map(label, grid) for label, grid in grids.items()),
                ),
            ),
            tables=(cell_table(grids),),
            claims=self.decided({**grids, **dict.fromkeys(self.absent(order), Grid())}, order),
            notes=self.notes(order),
        )


def condition_of(network: Network, order: StudyOptions) -> Condition:
    """Every cell and full reset, at other rates if the network is not the paper's."""
    asked = replace(network, optimizer=None).condition(SCENARIOS.at(order.scale), order=order, experiment="sensitivity")
    if network.optimizer is None:
        return asked
    return replace(asked, given=tuple(slim(setting, network.optimizer) for setting in asked.settings(order)))


def slim(setting: Setting, optimizer: Optimizer) -> Setting:
    """AID at the rates for few steps, any other method at the network's own."""
    if not isinstance(setting.method, UseAID):
        return Setting(setting.method, optimizer)
    return Setting(setting.method, Adam(learning_rate=FEW_STEPS[setting.optimizer.learning_rate]))


def grid_of(results: Results, condition: Condition, order: StudyOptions) -> Grid:
    own = condition.of(results, order)
    by_setting = own.group_by(lambda spec: (spec.method, spec.optimizer))
    cells = {
        (optimizer.learning_rate, method.relu_prob): final_accuracy(by_setting.get((method, optimizer), NO_RUNS))
        for method, optimizer in condition.settings(order)
        if isinstance(method, UseAID)
    }
    by_method = {name: final_accuracy(runs) for name, runs in own.by_method().items() if name != "aid"}
    return Grid(cells, by_method.pop("full_reset", NOT_RUN), by_method)


def heat_map(label: str, grid: Grid) -> HeatMap:
    """Learning rates down, the highest first, and p across."""
    rates, probabilities = sorted({rate for rate, _ in grid.cells}, reverse=True), sorted({p for _, p in grid.cells})
    reset = mean_of(grid.reset)
    return HeatMap(
        title=label,
        x_label="p",
        y_label="learning rate",
        columns=tuple(f"{p:g}" for p in probabilities),
        rows=tuple(f"{rate:g}" for rate in rates),
        samples=tuple(tuple(grid.cells.get((rate, p), NOT_RUN).values for p in probabilities) for rate in rates),
        reference=Level(label="full reset", value=reset) if np.isfinite(reset) else None,
        value_label="test accuracy",
    )


def cell_table(grids: Mapping[str, Grid]) -> Table:
    """Full reset, then AID's cells, then other methods; nothing of what has not run."""
    rows = [
        (label, label_of(name), p, rate, sample, ABSENT if name == "full_reset" else sample.minus(grid.reset))
        for label, grid in grids.items()
        for name, p, rate, sample in (
            ("full_reset", ABSENT, ABSENT, grid.reset),
            *(("aid", f"{p:g}", f"{rate:g}", sample) for (rate, p), sample in grid.cells.items()),
            *((name, ABSENT, ABSENT, sample) for name, sample in grid.others.items()),
        )
        if len(sample)
    ]
    names = ("network", "method", "p", "learning rate", "test accuracy", "minus full reset")
    columns = {name: lambda *row, place=place: row[place] for place, name in enumerate(names)}
    caption = "Test accuracy after the last stage; mean ± standard deviation over seeds."
    return sample_table("cells", caption, rows=rows, columns={**columns, "n": lambda *row: len(row[4])})
