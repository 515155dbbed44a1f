"""Generalizability gap (appendix G.2.1): what a network loses by going on instead of starting from scratch."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from supple.methods import FullReset, Method
from supple_lab.paper.claims import Above, Below, Claim, Each, Number, number
from supple_lab.paper.compare import BAND, difference_panel, label_of, sample_table, stage_curves
from supple_lab.paper.method_runs import chosen, quarters
from supple_lab.paper.networks import TINY, Network, NetworkStudy, networks
from supple_lab.paper.study import ByScale, Condition, StudyOptions
from supple_lab.paper.warm_start import LAST, Starts
from supple_lab.report.figure import Figure, Panel, StudyReport, Table
from supple_lab.results.results import Results
from supple_lab.scenarios.continual import ContinualFull as Scenario

METRIC = "test_accuracy"
ARMS = ("vanilla", "dropout", "aid")
FROM_SECOND = slice(1, None)  # the first stage is the same for both arms if their settings are
RESET = "Full reset starts from scratch at each stage and has no gap of its own: its runs are the cold start of ReLU."
SCENARIOS = ByScale(
    smoke=Scenario(num_stages=2, epochs=1, batch_size=20),
    quick=Scenario(num_stages=5, epochs=25, batch_size=16),
    paper=Scenario(),
)


def gap(name: str, method: str, stages: slice | None = None) -> Number:
    """A method's gap over these stages, or over those of the case."""
    return number(name, method, lambda starts: starts.gap(method, stages or starts.warm.stages))


def against(starts: Starts, other: str, stages: slice) -> Starts:
    """AID's arms beside another method's, for a claim about these stages."""
    return Starts(*(replace(arm.called(other=other), stages=stages) for arm in (starts.cold, starts.warm)))


def methods_in(starts: Starts) -> list[str]:
    return list(dict.fromkeys([*starts.warm.by_method, *starts.cold.by_method]))


CLAIMS = (
    Claim(
        key="aid_gap_stays_lowest",
        paper="AID consistently has the lowest gap between cold and warm start.",
        claim="AID's gap is lower than Dropout's and the vanilla network's throughout.",
        rule=Each(
            "the other being vanilla and Dropout, in each quarter of the stages from the second on, on each of the "
            "three, each by its own interval",
            lambda pairs: {
                f"{label}: {label_of(other)} (quarter {place})": against(pair, other, part)
                for label, pair in pairs.items()
                for other in ("vanilla", "dropout")
                for place, part in enumerate(quarters(pair.warm.num_stages, start=1), start=1)
            },
            Below(gap("quarter-mean gap", "aid") - gap("quarter-mean gap", "other")),
        ),
    ),
    Claim(
        key="dropout_gap_is_smaller_but_grows",
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
                    gap("gap at the last stage", "dropout", LAST) - gap("gap at stage 2", "dropout", slice(1, 2))
                ),
            },
        ),
    ),
)


class GeneralizabilityGap(NetworkStudy):
    """ReLU, Dropout and AID in continual full, with and without a full reset at each stage."""

    name = "generalizability_gap"
    title = "Generalizability gap: starting from scratch against going on"
    question = (
        "Data arrives in ten parts. A network that starts from scratch at each stage keeps all of its plasticity; how "
        "far behind it is the one that goes on, with ReLU, with Dropout and with AID?"
    )
    section = "G.2.1 Generalizability Comparison: Dropout vs. AID"
    claims = CLAIMS
    experiments = ("gap_warm", "gap_cold")
    quick = "5 stages of 25 epochs with 40 images more at each, batches of 16"
    left_out = "VGG-16"
    silent = (TINY, "the gap at the end of each stage, for after a reset its first epochs say little")

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        return tuple(arm(network, order) for network in networks(order, *self.cases) for arm in (warm, cold))

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        choose = partial(
            chosen, results, order=order, metric=METRIC, rule="final", key=lambda spec: arm_of(spec.method)
        )
        pairs = {
            network.label: Starts(choose(cold(network, order)), choose(warm(network, order)))
            for network in networks(order, *self.cases)
        }
        return StudyReport(
            figures=(accuracy_figure(pairs), gap_figure(pairs)),
            tables=(gap_table(pairs),),
            claims=self.decided({**pairs, **dict.fromkeys(self.absent(order), Starts())}, order),
            notes=(
                *self.notes(order),
                *without_both_arms(order),
                *(note for pair in pairs.values() for note in pair.cold.notes),
                *(note for pair in pairs.values() for note in pair.warm.notes),
            ),
        )


def warm(network: Network, order: StudyOptions) -> Condition:
    """The arms that go on; a full reset that is asked for does not: it is the cold arm of ReLU."""
    whole = network.condition(SCENARIOS.at(order.scale), order=order, experiment="gap_warm")
    going_on = tuple(setting for setting in whole.settings(order) if not isinstance(setting.method, FullReset))
    return replace(whole, label=f"{network.label}, warm start", given=going_on)


def cold(network: Network, order: StudyOptions) -> Condition:
    """The arms that are reset at each stage; of the order's methods those that have one."""
    all_arms = replace(order, methods=(), also=())
    whole = network.condition(SCENARIOS.at(order.scale), order=all_arms, experiment="gap_cold")
    settings = whole.settings(all_arms)
    arms = ["vanilla" if name == FullReset.name else name for name in order.methods]
    wanted = tuple(setting for setting in settings if not arms or arm_of(setting.method) in arms)
    return replace(whole, label=f"{network.label}, cold start", given=wanted)


def arm_of(method: Method) -> str:
    """Which method's arm a run belongs to: a network that is reset, to that of its activation."""
    if not isinstance(method, FullReset):
        return method.name
    return "vanilla" if method.built_with is None else method.built_with.name


def without_both_arms(order: StudyOptions) -> tuple[str, ...]:
    """What is said of methods that have no gap: those that the paper has no cold arm for, and full reset."""
    asked = dict.fromkeys((*order.methods, *order.also))
    names = [label_of(name) for name in asked if name not in (*ARMS, FullReset.name)]
    going_on = (f"Only going on, no cold start: {', '.join(names)}.",) if names else ()
    return (*going_on, RESET) if FullReset.name in asked else going_on


def accuracy_figure(pairs: Mapping[str, Starts]) -> Figure:
    panels = tuple(
        Panel(
            title=label,
            x_label="stage",
            y_label="test accuracy",
            curves=tuple(
                replace(curve, label=f"{curve.label}, {how}")
                for group, how in ((pair.cold, "cold start"), (pair.warm, "warm start"))
                for curve in stage_curves(group.by_method, METRIC)
            ),
        )
        for label, pair in pairs.items()
    )
    caption = f"Test accuracy at the end of each stage: reset at each stage (cold), and going on (warm); {BAND}"
    return Figure(name="cold_and_warm", caption=caption, panels=panels)


def gap_figure(pairs: Mapping[str, Starts]) -> Figure:
    panels = tuple(
        difference_panel(
            label,
            {name: (pair.cold.of(name), pair.warm.of(name)) for name in methods_in(pair)},
            METRIC,
            y_label="cold − warm test accuracy",
            zero="no gap",
        )
        for label, pair in pairs.items()
    )
    caption = f"Generalizability gap: cold minus warm accuracy of the same seed; lower is better; {BAND}"
    return Figure(name="gap", caption=caption, panels=panels)


def gap_table(pairs: Mapping[str, Starts]) -> Table:
    return sample_table(
        "gap",
        "Test accuracy after the last stage and the gap between both; mean ± standard deviation over seeds.",
        rows=[(label, pair, name) for label, pair in pairs.items() for name in methods_in(pair)],
        columns={
            "network": lambda label, pair, name: label,
            "method": lambda label, pair, name: label_of(name),
            "cold start": lambda label, pair, name: pair.cold.of(name).final(METRIC),
            "warm start": lambda label, pair, name: pair.warm.of(name).final(METRIC),
            "gap at the last stage": lambda label, pair, name: pair.gap(name, LAST),
            "mean gap from stage 2": lambda label, pair, name: pair.gap(name, FROM_SECOND),
            "n": lambda label, pair, name: (
                len(pair.gap(name, FROM_SECOND))  # without a gap, of the start it has
                or max(len(arm.of(name).final(METRIC)) for arm in (pair.cold, pair.warm))
            ),
        },
    )
