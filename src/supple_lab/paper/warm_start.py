"""Warm start (section 3.2, Figure 2, right): a long start on a tenth of the data, then all of it."""

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from supple.methods import Vanilla
from supple_lab.paper.claims import Above, All, Below, Claim, Each, Number, OnlyIf, Rule, final, number
from supple_lab.paper.compare import BAND, bar, beside_the_paper, label_of, sample_table
from supple_lab.paper.method_runs import MethodRuns, chosen, nothing_over_epochs
from supple_lab.paper.networks import NetworkStudy, final_accuracy, networks
from supple_lab.paper.study import ByScale, Condition, StudyOptions
from supple_lab.report.figure import Bars, Figure, Line, Panel, StudyReport, Table
from supple_lab.report.tables import ABSENT
from supple_lab.results.results import Results, Sample
from supple_lab.run.check import acts_between_stages_alone
from supple_lab.scenarios.base import Scenario
from supple_lab.scenarios.stationary import Stationary
from supple_lab.scenarios.warm_start import WarmStart as Warm

LAST = slice(-1, None)
PAPER_GAPS = {"vanilla": 0.109, "dropout": 0.101, "aid": 0.033}  # cold minus warm accuracy (section 3.2)
SCENARIOS: dict[str, ByScale[Scenario]] = {
    "warm": ByScale(
        smoke=Warm(warm_epochs=2, epochs=1, batch_size=20),
        quick=Warm(warm_epochs=300, epochs=40, batch_size=16, share=0.25),
        paper=Warm(),
    ),
    "cold": ByScale(
        smoke=Stationary(epochs=1, milestones=(), batch_size=20),
        quick=Stationary(epochs=40, milestones=(), batch_size=16),
        paper=Stationary(epochs=100, milestones=()),
    ),
}


@dataclass(frozen=True)
class Starts:
    """The runs of one network by method: those that start from scratch, and those that go on."""

    cold: MethodRuns = field(default_factory=MethodRuns)
    warm: MethodRuns = field(default_factory=MethodRuns)

    def gap(self, method: str, stages: slice = LAST) -> Sample:
        """Cold minus warm test accuracy, the mean over some stages, seed by seed."""
        cold, warm = (arm.of(method).stage_mean("test_accuracy", stages) for arm in (self.cold, self.warm))
        return cold.minus(warm)


def gap(method: str) -> Number:
    return number("gap", method, lambda starts: starts.gap(method))


def if_there_is_a_gap(ours: str, rule: Rule) -> Rule:
    """The rule, if the vanilla network has a gap that can be equal to another or closed."""
    return OnlyIf({"there is a gap": Above(gap("vanilla").in_seeds_of(gap(ours)))}, rule)


CLAIMS = (
    Claim(
        key="dropout_improves_both_starts",
        paper="With Dropout both warm start and cold start are more accurate than with the vanilla network.",
        claim="Dropout improves the accuracy from either start.",
        rule=Each(
            "from a cold and from a warm start",
            lambda starts: {"cold start": starts.cold, "warm start": starts.warm},
            Above(final("test_accuracy", "dropout") - final("test_accuracy", "vanilla")),
        ),
    ),
    Claim(
        key="dropout_gap_equals_vanilla",
        paper="Cold start beats warm start by 10.1 points with Dropout and by 10.9 with the vanilla network.",
        claim="Dropout's warm-start gap is that of the vanilla network.",
        rule=if_there_is_a_gap(
            "dropout",
            All(  # up to a quarter: the paper's differ by 0.07 of vanilla's
                {
                    "not much smaller": Above(gap("dropout") - 0.75 * gap("vanilla")),
                    "not much larger": Below(gap("dropout") - 1.25 * gap("vanilla")),
                }
            ),
        ),
    ),
    Claim(
        key="aid_gap_is_smaller",
        paper="AID's warm-start gap is 3.3 points, the vanilla network's 10.9.",
        claim="AID closes most of the warm-start gap.",
        rule=if_there_is_a_gap(  # the paper's AID has 0.3 of it
            "aid",
            Above((0.5 * gap("vanilla") - gap("aid")).called("half the gap of vanilla minus the gap of AID")),
        ),
    ),
)


class WarmStart(NetworkStudy):
    """ReLU, Dropout and AID on CIFAR-100 with ResNet-18."""

    name = "warm_start"
    title = "Warm start: what a long start on few data costs"
    question = (
        "One network trains long on a tenth of the data before it sees the rest; another sees all from the start. How "
        "much less accurate does the first become, with ReLU, with Dropout and with AID?"
    )
    section = "3.2 Generalizability Perspective"
    claims = CLAIMS
    quick = (
        "300 epochs on a quarter of the images, then 40 on all, batches of 16; the paper's numbers are of ResNet-18 "
        "on CIFAR-100"
    )
    silent = ("batches of 256",)

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        return tuple(conditions(order).values())

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        starts = starts_of(results, order)
        return StudyReport(
            figures=(accuracy_figure(starts), gap_figure(starts, order)),
            tables=(beside_the_paper(gap_table(starts), order),),
            claims=self.decided(starts, order),
            notes=(*self.notes(order), *starts.cold.notes, *starts.warm.notes),
        )


def conditions(order: StudyOptions) -> dict[str, Condition]:
    (network,) = networks(order, "resnet18")

    def condition(start: str, scenario: Scenario) -> Condition:
        whole = network.condition(scenario, order=order, experiment="warm_start", methods=tuple(PAPER_GAPS))
        whole = replace(whole, label=f"{network.label}, {start} start")
        if start == "warm":
            return whole
        # A cold start has no boundary: what acts there alone trains as the vanilla network does, which runs for all.
        own = (
            one._replace(method=Vanilla()) if acts_between_stages_alone(one.method) else one
            for one in whole.settings(order)
        )
        return replace(whole, given=tuple(dict.fromkeys(own)))

    return {start: condition(start, scenarios.at(order.scale)) for start, scenarios in SCENARIOS.items()}


def starts_of(results: Results, order: StudyOptions) -> Starts:
    choose = partial(chosen, results, order=order, metric="test_accuracy", rule="final")
    found = {start: choose(condition) for start, condition in conditions(order).items()}
    as_vanilla = [name for name in found["warm"].by_method if name not in found["cold"].by_method]
    return Starts(cold=found["cold"].called(**dict.fromkeys(as_vanilla, "vanilla")), warm=found["warm"])


def accuracy_figure(starts: Starts) -> Figure:
    curves = (
        last_stage_curve(method, group, how)
        for how, group in (("cold start", starts.cold), ("warm start", starts.warm))
        for method in group.by_method
    )
    panel = Panel(
        title="Test accuracy, cold and warm",
        x_label="epoch on all data",
        y_label="test accuracy",
        curves=tuple(curve for curve in curves if len(curve.x)),
        nothing=nothing_over_epochs(starts.cold, starts.warm),
    )
    return Figure(name="warm_start", caption=f"Test accuracy after each epoch on all data; {BAND}", panels=(panel,))


def last_stage_curve(method: str, group: MethodRuns, how: str) -> Line:
    """A method's accuracy after each epoch of the stage that has all data, as far as its runs have come."""
    values = group.of(method).epoch_matrix("test_accuracy", first_stage=group.num_stages - 1)
    x, label = np.arange(1, values.shape[1] + 1), f"{label_of(method)}, {how}"
    return Line.over_seeds(method=method, label=label, x=x, values=values)


def gap_figure(starts: Starts, order: StudyOptions) -> Figure:
    """The gaps; at the paper's scale beside the paper's, which prints no deviation."""
    sources = ("this study", "paper") if order.scale == "paper" else ("this study",)

    def both(method: str) -> list[Sample]:
        paper = Sample(values=np.array([PAPER_GAPS.get(method, np.nan)]), seeds=(), runs=())
        return [starts.gap(method), paper][: len(sources)]

    panel = Bars(
        title="Warm-start gap",
        x_label="",
        y_label="cold − warm test accuracy",
        positions=sources,
        bars=tuple(
            bar(method, label_of(method), both(method)) for method in starts.cold.by_method if len(starts.gap(method))
        ),
    )
    printed = ", and what the paper prints" if len(sources) > 1 else ""
    caption = f"Final cold minus final warm test accuracy; mean and standard deviation over seeds{printed}."
    return Figure(name="warm_start_gap", caption=caption, panels=(panel,))


def gap_table(starts: Starts) -> Table:
    return sample_table(
        "gap",
        "Final test accuracy from a cold and a warm start, and the gap; mean ± standard deviation over seeds.",
        rows=starts.cold.by_method,
        columns={
            "method": label_of,
            "cold start": lambda method: final_accuracy(starts.cold.of(method)),
            "warm start": lambda method: final_accuracy(starts.warm.of(method)),
            "gap": starts.gap,
            "gap in the paper": lambda method: f"{PAPER_GAPS[method]:.3f}" if method in PAPER_GAPS else ABSENT,
            "n": lambda method: len(starts.gap(method)),
        },
    )
