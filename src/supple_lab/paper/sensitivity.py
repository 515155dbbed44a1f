"""Sensitivity (appendix G.2.2): AID at several p and learning rates in continual full, against full reset."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from supple.methods.activations import UseAID
from supple_lab.optimizer import Adam, Optimizer
from supple_lab.paper.claims import Above, Claim, Each, Most, Number
from supple_lab.paper.compare import final_accuracy, label_of, mean_of, shown
from supple_lab.paper.networks import ALL, Network, left_out, networks
from supple_lab.paper.notes import LOOKED_AT, scale_notes
from supple_lab.paper.study import Condition, Study, StudyOptions
from supple_lab.paper.tables import Setting
from supple_lab.report.figure import Figure, HeatMap, Level, StudyReport, Table
from supple_lab.report.tables import ABSENT
from supple_lab.results.results import Results, Sample
from supple_lab.scenarios.continual import ContinualFull as Scenario

SCENARIOS = {
    "smoke": Scenario(num_stages=2, epochs=1, batch_size=20),
    "quick": Scenario(num_stages=5, epochs=40, batch_size=16),
    "paper": Scenario(),
}
FEW_STEPS = {1e-3: 3e-3, 1e-4: 3e-4}  # AID's rates on digits, on either side of the 1e-3 of full reset
NOT_RUN = final_accuracy(Results(()))
Cell = tuple[float, float]  # learning rate and p


@dataclass(frozen=True)
class Grid:
    """One network's final accuracies: AID's by cell, full reset's, and those of methods that an order adds."""

    cells: Mapping[Cell, Sample]  # every cell that was asked for, empty if nothing ended
    reset: Sample
    others: Mapping[str, Sample] = field(default_factory=dict)  # by method

    @property
    def rates(self) -> list[float]:
        """The rows: learning rates, the highest first."""
        return sorted({rate for rate, _ in self.cells}, reverse=True)

    @property
    def probabilities(self) -> list[float]:
        """The columns: p."""
        return sorted({p for _, p in self.cells})


ABOVE_RESET = Claim(
    key="aid_above_reset_in_most_cells",
    section="G.2.2 Hyperparameter Sensitivity",
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


class Sensitivity(Study):
    """AID at p from 0.6 to 0.9 and two learning rates on the three networks."""

    name = "sensitivity"
    title = "Sensitivity: AID at several p and learning rates"
    question = "In continual full, does AID end above full reset whatever its p and learning rate?"
    claims = (ABOVE_RESET,)

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        cases = ("cnn",) if order.scale == "quick" else ALL
        return tuple(condition_of(network, order) for network in networks(order, *cases))

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        grids = {condition.label: grid_of(results, condition, order) for condition in self.conditions(order)}
        absent = dict.fromkeys(left_out(self.conditions(order), *ALL), Grid({}, NOT_RUN))
        return StudyReport(
            figures=(
                Figure(
                    name="sensitivity",
                    caption="Test accuracy after the last stage, mean and standard deviation over seeds; the mark on "
                    "the colour bar is full reset, cells above it are bold.",
                    panels=tuple(heat_map(label, grid) for label, grid in grids.items()),
                ),
            ),
            tables=(
                Table(
                    name="cells",
                    caption="Test accuracy after the last stage; mean ± standard deviation over seeds.",
                    header=("network", "method", "p", "learning rate", "test accuracy", "minus full reset", "n"),
                    rows=tuple(row for label, grid in grids.items() for row in cell_rows(label, grid)),
                ),
            ),
            claims=self.decided({**grids, **absent}, order),
            notes=scale_notes(
                order,
                "sensitivity",
                quick="5 stages of 40 epochs with 40 images more at each, batches of 16",
                settings="AID's two rates are three times the paper's, for the steps are few; full reset has 0.001. "
                f"{LOOKED_AT}",
                left_out="ResNet-18, which needs a longer training at these p where it is slim, and VGG-16",
            ),
        )


def condition_of(network: Network, order: StudyOptions) -> Condition:
    """Every cell and full reset, at other rates if the network is not the paper's."""
    asked = replace(network, optimizer=None).condition(SCENARIOS[order.scale], order=order, experiment="sensitivity")
    if network.optimizer is None:
        return asked
    return replace(asked, given=tuple(slim(setting, network.optimizer) for setting in asked.settings(order)))


def slim(setting: Setting, optimizer: Optimizer) -> Setting:
    """AID at the rates for few steps, any other method at the network's own."""
    if not isinstance(setting.method, UseAID):
        return Setting(setting.method, optimizer)
    return Setting(setting.method, Adam(learning_rate=FEW_STEPS[setting.optimizer.learning_rate]))


def grid_of(results: Results, condition: Condition, order: StudyOptions) -> Grid:
    """The final accuracies of a condition's runs, cell by cell."""
    own = condition.of(results, order)
    by_setting = own.group_by(lambda spec: (spec.method, spec.optimizer))
    cells = {
        (optimizer.learning_rate, method.relu_prob): final_accuracy(by_setting.get((method, optimizer), Results(())))
        for method, optimizer in condition.settings(order)
        if isinstance(method, UseAID)
    }
    by_method = {name: final_accuracy(runs) for name, runs in own.group_by("method").items() if name != "aid"}
    return Grid(cells, by_method.pop("full_reset", NOT_RUN), by_method)


def heat_map(label: str, grid: Grid) -> HeatMap:
    """The cells of one network."""
    reset = mean_of(grid.reset)
    return HeatMap(
        title=label,
        x_label="p",
        y_label="learning rate",
        columns=tuple(f"{p:g}" for p in grid.probabilities),
        rows=tuple(f"{rate:g}" for rate in grid.rates),
        samples=tuple(
            tuple(grid.cells.get((rate, p), NOT_RUN).values for p in grid.probabilities) for rate in grid.rates
        ),
        reference=Level(label="full reset", value=reset) if np.isfinite(reset) else None,
        value_label="test accuracy",
    )


def cell_rows(label: str, grid: Grid) -> list[tuple[str, ...]]:
    """Full reset, then AID's cells, then other methods; nothing of what has not run."""
    settings = [
        (("full_reset", ABSENT, ABSENT), grid.reset),
        *((("aid", f"{p:g}", f"{rate:g}"), sample) for (rate, p), sample in grid.cells.items()),
        *(((name, ABSENT, ABSENT), sample) for name, sample in grid.others.items()),
    ]
    return [
        (label, label_of(name), p, rate, shown(sample), distance(name, sample, grid.reset), str(len(sample)))
        for (name, p, rate), sample in settings
        if len(sample)
    ]


def distance(name: str, sample: Sample, reset: Sample) -> str:
    """How far a method is from full reset; of full reset itself, nothing is said."""
    return ABSENT if name == "full_reset" else shown(sample.minus(reset))
