"""Generalizability gap (appendix G.2.1): what a network loses by going on instead of starting from scratch."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from supple.methods.base import Method
from supple.methods.full_reset import FullReset
from supple_lab.paper.claims import Above, Below, Claim, Each, Number, number
from supple_lab.paper.compare import (
    MethodRuns,
    chosen,
    difference_curve,
    label_of,
    mean_of_stages,
    quarters,
    selection_notes,
    shown,
    stage_curves,
)
from supple_lab.paper.networks import ALL, Network, left_out, networks
from supple_lab.paper.notes import TINY, scale_notes
from supple_lab.paper.study import Condition, Study, StudyOptions
from supple_lab.report.figure import Curve, Figure, Level, Panel, StudyReport, Table
from supple_lab.results.results import Results, Sample
from supple_lab.scenarios.continual import ContinualFull as Scenario

METRIC = "test_accuracy"
ARMS = ("vanilla", "dropout", "aid")
FROM_SECOND = slice(1, None)  # the first stage is the same for both arms wherever their settings are
RESET = "Full reset starts anew at each stage and has no gap of its own: its runs are the cold start of ReLU."
BAND = "line: mean over seeds, band: one standard deviation."
SCENARIOS = {
    "smoke": Scenario(num_stages=2, epochs=1, batch_size=20),
    "quick": Scenario(num_stages=5, epochs=25, batch_size=16),
    "paper": Scenario(),
}


@dataclass(frozen=True)
class Pair:
    """One network's runs: started anew at each stage, and going on."""

    cold: MethodRuns
    warm: MethodRuns
    stages: slice = field(default_factory=lambda: FROM_SECOND)  # that a claim is about

    def gap(self, method: str, stages: slice) -> Sample:
        """Cold minus warm accuracy, the mean over some stages, seed by seed."""
        cold = mean_of_stages(self.cold.of(method), METRIC, stages)
        return cold.minus(mean_of_stages(self.warm.of(method), METRIC, stages))

    def against(self, other: str) -> "Pair":
        """AID's arms beside another method's."""
        return Pair(self.cold.called(aid="aid", other=other), self.warm.called(aid="aid", other=other))

    def methods(self) -> list[str]:
        """What has an arm."""
        return list(dict.fromkeys([*self.warm.by_method, *self.cold.by_method]))


def gap(name: str, method: str, stages: slice | None = None) -> Number:
    """A method's gap over these stages, or over those of the case."""
    return number(name, method, lambda pair: pair.gap(method, pair.stages if stages is None else stages))


def rivals_in_quarters(pairs: Mapping[str, Pair]) -> dict[str, Pair]:
    """AID beside each of the two, on each network in each quarter of the stages from the second on."""
    return {
        f"{label}: {label_of(other)} (quarter {place})": replace(pair.against(other), stages=part)
        for label, pair in pairs.items()
        for other in ("vanilla", "dropout")
        for place, part in enumerate(quarters(pair.warm.num_stages, start=1), start=1)
    }


SECTION = "G.2.1 Generalizability Comparison: Dropout vs. AID"
CLAIMS = (
    Claim(
        key="aid_gap_stays_lowest",
        section=SECTION,
        paper="AID consistently has the lowest gap between cold and warm start.",
        claim="AID's gap is lower than Dropout's and the vanilla network's throughout.",
        rule=Each(
            "the other being vanilla and Dropout, in each quarter of the stages from the second on, on each of the "
            "three, each by its own interval",
            rivals_in_quarters,
            Below(gap("quarter-mean gap", "aid") - gap("quarter-mean gap", "other")),
        ),
    ),
    Claim(
        key="dropout_gap_is_smaller_but_grows",
        section=SECTION,
        paper="Dropout's gap is smaller than the vanilla network's, but gradually increases.",
        claim="Dropout narrows the gap, and still it grows over the stages.",
        rule=Each(
            "on each of the three",
            dict,
            {
                ": smaller": Below(
                    gap("mean gap from stage 2 on", "dropout", FROM_SECOND)
                    - gap("mean gap from stage 2 on", "vanilla", FROM_SECOND)
                ),
                ": grows": Above(
                    gap("gap at the last stage", "dropout", slice(-1, None))
                    - gap("gap at stage 2", "dropout", slice(1, 2))
                ),
            },
        ),
    ),
)


class GeneralizabilityGap(Study):
    """ReLU, Dropout and AID in continual full, with and without a full reset at each stage."""

    name = "generalizability_gap"
    title = "Generalizability gap: starting from scratch against going on"
    question = (
        "Data arrives in ten parts. A network that starts from scratch at each stage keeps all of its plasticity; how "
        "far behind it is the one that goes on, with ReLU, with Dropout and with AID?"
    )
    claims = CLAIMS

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        return tuple(
            condition for network in networks(order, *ALL) for condition in (warm(network, order), cold(network, order))
        )

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        pairs = {network.label: pair_of(results, network, order) for network in networks(order, *ALL)}
        absent = left_out(self.conditions(order), *ALL)
        all_pairs = {**pairs, **dict.fromkeys(absent, Pair(MethodRuns({}), MethodRuns({})))}
        return StudyReport(
            figures=(accuracy_figure(pairs), gap_figure(pairs)),
            tables=(gap_table(pairs),),
            claims=self.decided(all_pairs, order),
            notes=(
                *scale_notes(
                    order,
                    "gap_warm",
                    "gap_cold",
                    quick="5 stages of 25 epochs with 40 images more at each, batches of 16",
                    left_out="VGG-16",
                    conditions=self.conditions(order),
                    silent=(TINY, "the gap at the end of each stage, for after a reset its first epochs say little"),
                ),
                *without_both_arms(order),
                *selection_notes({name: pair.cold for name, pair in pairs.items()}),
                *selection_notes({name: pair.warm for name, pair in pairs.items()}),
            ),
        )


def warm(network: Network, order: StudyOptions) -> Condition:
    """The arms that go on; a full reset that is asked for does not: it is the cold arm of ReLU."""
    whole = network.condition(SCENARIOS[order.scale], order=order, experiment="gap_warm")
    going_on = tuple(setting for setting in whole.settings(order) if not isinstance(setting.method, FullReset))
    return replace(whole, label=f"{network.label}, warm start", given=going_on)


def cold(network: Network, order: StudyOptions) -> Condition:
    """The arms that are reset at each stage; of the order's methods those that have one."""
    whole = network.condition(SCENARIOS[order.scale], order=replace(order, methods=(), also=()), experiment="gap_cold")
    settings = whole.settings(replace(order, methods=(), also=()))
    arms = ["vanilla" if name == FullReset.name else name for name in order.methods]
    wanted = tuple(setting for setting in settings if not arms or arm_of(setting.method) in arms)
    return replace(whole, label=f"{network.label}, cold start", given=wanted)


def arm_of(method: Method) -> str:
    """Which method's arm a run belongs to: a network that is reset, to that of its activation."""
    if not isinstance(method, FullReset):
        return method.name
    return "vanilla" if method.built_with is None else method.built_with.name


def pair_of(results: Results, network: Network, order: StudyOptions) -> Pair:
    """The runs of both conditions to report, each arm at its own best after a search."""
    choose = partial(chosen, results, order=order, metric=METRIC, rule="final", key=lambda spec: arm_of(spec.method))
    return Pair(choose(cold(network, order)), choose(warm(network, order)))


def without_both_arms(order: StudyOptions) -> tuple[str, ...]:
    """What is said of methods that have no gap: those that the paper has no cold arm for, and full reset."""
    asked = dict.fromkeys((*order.methods, *order.also))
    names = [label_of(name) for name in asked if name not in (*ARMS, FullReset.name)]
    going_on = (f"Only going on, no cold start: {', '.join(names)}.",) if names else ()
    return (*going_on, RESET) if FullReset.name in asked else going_on


def accuracy_figure(pairs: Mapping[str, Pair]) -> Figure:
    """Cold and warm accuracies."""
    panels = tuple(
        Panel(
            title=label,
            x_label="stage",
            y_label="test accuracy",
            curves=(
                *started(stage_curves(pair.cold.by_method, METRIC), "cold start"),
                *started(stage_curves(pair.warm.by_method, METRIC), "warm start"),
            ),
        )
        for label, pair in pairs.items()
    )
    caption = f"Test accuracy at the end of each stage: reset at each stage (cold), and going on (warm); {BAND}"
    return Figure(name="cold_and_warm", caption=caption, panels=panels)


def started(curves: tuple[Curve, ...], how: str) -> tuple[Curve, ...]:
    """The curves with the start in their labels."""
    return tuple(replace(curve, label=f"{curve.label}, {how}") for curve in curves)


def gap_figure(pairs: Mapping[str, Pair]) -> Figure:
    """Cold minus warm accuracy."""
    caption = f"Generalizability gap: cold minus warm accuracy of the same seed; lower is better; {BAND}"
    return Figure(name="gap", caption=caption, panels=tuple(gap_panel(label, pair) for label, pair in pairs.items()))


def gap_panel(label: str, pair: Pair) -> Panel:
    """One network's gaps."""
    curves = (difference_curve(pair.cold.of(name), pair.warm.of(name), METRIC, method=name) for name in pair.methods())
    return Panel(
        title=label,
        x_label="stage",
        y_label="cold − warm test accuracy",
        curves=tuple(curve for curve in curves if curve is not None),
        levels=(Level(label="no gap", value=0.0),),
    )


def gap_table(pairs: Mapping[str, Pair]) -> Table:
    """Mean and last gap, network by network."""
    rows = tuple(
        (
            label,
            label_of(name),
            shown(pair.cold.of(name).final(METRIC)),
            shown(pair.warm.of(name).final(METRIC)),
            shown(pair.gap(name, slice(-1, None))),
            shown(pair.gap(name, FROM_SECOND)),
            str(len(pair.gap(name, FROM_SECOND))),
        )
        for label, pair in pairs.items()
        for name in pair.methods()
    )
    return Table(
        name="gap",
        caption="Test accuracy after the last stage and the gap between both; mean ± standard deviation over seeds.",
        header=("network", "method", "cold start", "warm start", "gap at the last stage", "mean gap from stage 2", "n"),
        rows=rows,
    )
