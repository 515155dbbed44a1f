"""Compare: the runs of a condition by method, what figures and tables call them, and the curves and tables of both."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from supple_lab.optimizer import Optimizer
from supple_lab.paper.study import Condition, StudyOptions
from supple_lab.paper.tables import best, cases
from supple_lab.report.figure import NO_EPOCHS, NOTHING_YET, Curve, Panel, Table
from supple_lab.report.tables import ABSENT, best_of_columns
from supple_lab.results.intervals import format_mean
from supple_lab.results.results import Key, Results, RunResult, Sample
from supple_lab.results.select import Rule, select
from supple_lab.scenarios.base import Scenario

LABELS = {
    "vanilla": "ReLU",
    "dropout": "ReLU + Dropout",
    "aid": "AID",
    "drop_relu": "DropReLU",
    "rrelu": "RReLU",
    "crelu": "CReLU",
    "fourier": "Fourier",
    "identity": "identity",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "l2": "L2",
    "l2_init": "L2 Init",
    "s_ewc": "S-EWC",
    "shrink_perturb": "S&P",
    "dash": "DASH",
    "redo": "ReDo",
    "cbp": "CBP",
    "full_reset": "full reset",
    "fire": "FIRE",
    "snr": "SNR",
    "regrama": "ReGraMa",
    "cpr": "CPR",
    "upgd": "UPGD",
    "trac": "TRAC",
    "adamo": "AdamO",
    "parseval": "Parseval",
    "spectral": "spectral",
    "wasserstein_init": "Wasserstein init",
    "weight_clipping": "weight clipping",
    "nap": "NaP",
    "hare_tortoise": "Hare & Tortoise",
    "head_reset": "head reset",
    "l2_er": "L2-ER",
    "c_chain": "C-CHAIN",
    "fresh_optimizer": "fresh optimizer",
    "decoupled_decay": "decoupled decay",
    "equal_betas": "equal betas",
    "chain": "chain",
    "aid_mean": "AID's mean",
    "aid_gauss": "AID, Gaussian",
    "leaky_relu": "leaky ReLU",
    "smooth_leaky": "Smooth-Leaky",
    "random_smooth_leaky": "Smooth-Leaky, random",
    "prelu": "PReLU per unit",
    "elu": "ELU",
    "celu": "CELU",
    "gelu": "GELU",
    "silu": "SiLU",
    "layer_norm": "LayerNorm",
    "rational": "rational",
}


def label_of(method: str) -> str:
    """What a method is called; one that the paper does not have, by its own name."""
    return LABELS.get(method, method)


def label_of_optimizer(optimizer: Optimizer) -> str:
    """An optimizer with its learning rate as people write it: Adam 1e-3."""
    digits, exponent = f"{optimizer.learning_rate:e}".split("e")
    return f"{type(optimizer).__name__} {float(digits):g}e{int(exponent)}"


def quarters(num_stages: int, *, start: int = 0) -> list[slice]:
    """The stages from the start on in four parts; fewer if there are fewer stages."""
    parts = [part for part in np.array_split(np.arange(start, num_stages), 4) if len(part)]
    return [slice(int(part[0]), int(part[-1]) + 1) for part in parts]


@dataclass(frozen=True)
class MethodRuns:
    """The runs of one condition by method, in the study's order, and what was selected how."""

    by_method: dict[str, Results]
    notes: tuple[str, ...] = ()
    num_stages: int = 8  # of what was not run, any number that has four quarters
    stages: slice = field(default_factory=lambda: slice(None))  # that a claim is about
    metric: str = "test_accuracy"  # likewise

    def of(self, method: str) -> Results:
        """The method's runs; none if it was not run."""
        return self.by_method.get(method, Results(()))

    def by_quarter(self) -> "dict[str, MethodRuns]":
        """The same runs for each quarter of the stages."""
        parts = enumerate(quarters(self.num_stages), start=1)
        return {f"quarter {place}": replace(self, stages=part) for place, part in parts}

    def by_measured_quarter(self, metric: str, method: str) -> "dict[str, MethodRuns]":
        """The same runs for each quarter of the stages at which the method's metric was measured."""
        return replace(self, num_stages=len(self.of(method).stages(metric)) or 4).by_quarter()

    def called(self, **methods: str) -> "MethodRuns":
        """The runs of some methods under other names."""
        return replace(self, by_method={name: self.of(method) for name, method in methods.items()})


def chosen(
    results: Results, condition: Condition, *, order: StudyOptions, metric: str, rule: Rule, key: Key = "method"
) -> MethodRuns:
    """What to report of a condition: everything, or the best of each method's search; the key says what a method is."""
    by_method: dict[str, Results] = condition.of(results, order).group_by(key)
    scenario = getattr(condition.problem, "scenario", None)
    found = MethodRuns(by_method, num_stages=scenario.num_stages if isinstance(scenario, Scenario) else 1)
    if not order.search:
        return found
    selections = {name: select(runs, metric, rule=rule) for name, runs in by_method.items()}
    notes = tuple(
        f"{condition.label}, {label_of(name)}: {selection.words()}"
        for name, selection in selections.items()
        if selection.num_configurations > 1
    )
    return replace(found, by_method={name: selection.chosen for name, selection in selections.items()}, notes=notes)


def nothing_over_epochs(*groups: MethodRuns) -> str:
    """What a panel over epochs says if it has no curves: nothing is finished, or what is has no log of epochs."""
    finished = any(runs.finished for group in groups for runs in group.by_method.values())
    return NO_EPOCHS if finished else NOTHING_YET


MAX_POINTS = 100  # of a curve: more of them are a thick band of noise
ByMethod = Mapping[str, Results]


def stage_curves(by_method: ByMethod, metric: str) -> tuple[Curve, ...]:
    """One curve for each method there is anything to draw of; the band is one standard deviation, as in the paper."""
    size = num_averaged(by_method, metric)
    return tuple(
        stage_curve(name, results, metric, size=size)
        for name, results in by_method.items()
        if results.drawn and len(results.stages(metric))
    )


def stage_curve(method: str, results: Results, metric: str, *, size: int) -> Curve:
    """The metric's means over so many stages at a time, each drawn at the last of them."""
    stages, values = results.stages(metric) + 1, results.matrix(metric)
    starts = np.arange(0, len(stages), size)
    ends = np.append(starts[1:], len(stages))
    return Curve(
        method=method,
        label=label_of(method),
        x=stages[ends - 1],
        values=np.add.reduceat(values, starts, axis=1) / (ends - starts),
        band="deviation",
    )


def num_averaged(by_method: ByMethod, metric: str) -> int:
    """How many stages a point stands for: one, unless a curve had more points than can be told apart."""
    longest = max((len(results.stages(metric)) for results in by_method.values()), default=1)
    return max(1, math.ceil(longest / MAX_POINTS))


def stage_label(by_method: ByMethod, metric: str) -> str:
    """What the horizontal axis is called: it tells where a point stands for several stages."""
    size = num_averaged(by_method, metric)
    return "stage" if size == 1 else f"stage (points: means of {size})"


ByStage = dict[int, float]  # a metric by stage


def difference_curve(one: Results, other: Results, metric: str, *, method: str) -> Curve | None:
    """One minus the other at each stage, or None if no seed has both."""
    ours, theirs = tables_by_seed(one, metric), tables_by_seed(other, metric)
    seeds = [seed for seed in ours if seed in theirs]
    stages = sorted({stage for seed in seeds for stage in ours[seed].keys() & theirs[seed].keys()})
    if not stages:
        return None
    nan = float("nan")
    rows = [[ours[seed].get(stage, nan) - theirs[seed].get(stage, nan) for stage in stages] for seed in seeds]
    return Curve(
        method=method,
        label=label_of(method),
        x=np.array(stages) + 1,
        values=np.array(rows, dtype=float),
        band="deviation",
    )


def tables_by_seed(results: Results, metric: str) -> dict[int, ByStage]:
    """Each drawn run's metric by stage, under its seed."""
    return {
        run.spec.seed: {record["stage"]: record[metric] for record in run.records if metric in record}
        for run in results.drawn
    }


def mean_of_stages(results: Results, metric: str, stages: slice) -> Sample:
    """The metric's mean over some of the stages, one number an ended run."""

    def mean(run: RunResult) -> float:
        values = run.values(metric)[stages]
        return float(values.mean()) if len(values) else float("nan")

    return results.sample(mean)


def where_ended(sample: Sample) -> Sample:
    """The seeds that have a value, one run each: without those that diverged."""
    kept = np.flatnonzero(np.isfinite(sample.values))
    return Sample(
        values=sample.values[kept],
        seeds=tuple(sample.seeds[place] for place in kept),
        runs=tuple(sample.runs[place] for place in kept),
    )


Groups = Mapping[str, MethodRuns]  # by network, as it is called
Number = Callable[[Results], Sample]  # what is compared, one number a run


def compare(
    results: Results, conditions: Sequence[Condition], *, order: StudyOptions, metric: str = "test_accuracy"
) -> dict[str, MethodRuns]:
    """Each network's runs to report; a search is decided by final accuracy, the paper's rule for generalizability."""
    return {
        condition.label: chosen(results, condition, order=order, metric=metric, rule="final")
        for condition in conditions
    }


def selection_notes(*groups: Groups) -> tuple[str, ...]:
    """What was selected how."""
    return tuple(note for group in groups for one in group.values() for note in one.notes)


def methods_of(groups: Groups) -> list[str]:
    """All methods of all networks, in the study's order."""
    return list(dict.fromkeys(name for group in groups.values() for name in group.by_method))


def stage_panels(groups: Groups, metric: str, *, y_label: str) -> tuple[Panel, ...]:
    """The metric over the stages, a panel a network."""
    return tuple(
        Panel(title=label, x_label="stage", y_label=y_label, curves=stage_curves(group.by_method, metric))
        for label, group in groups.items()
    )


def final_accuracy(results: Results) -> Sample:
    """Test accuracy after the last epoch."""
    return results.final("test_accuracy")


def mean_accuracy(results: Results) -> Sample:
    """Test accuracy at the end of a stage, the mean over all stages."""
    return results.stage_mean("test_accuracy")


def comparison_table(groups: Groups, number: Number, *, name: str, caption: str) -> Table:
    """Methods by networks, the best of each network in bold."""
    methods = methods_of(groups)
    samples = [[number(group.of(method)) for group in groups.values()] for method in methods]
    means = np.array([[mean_of(sample) for sample in row] for row in samples], dtype=float)
    return Table(
        name=name,
        caption=f"{caption}; mean ± standard deviation over seeds, the best of each column in bold.",
        header=("method", *(f"{label} ({num_seeds(group, number)})" for label, group in groups.items())),
        rows=tuple((label_of(method), *map(shown, row)) for method, row in zip(methods, samples, strict=True)),
        bold=best_of_columns(means.reshape(len(methods), len(groups)), columns=range(1, len(groups) + 1)),
    )


def num_seeds(group: MethodRuns, number: Number) -> str:
    """How many runs stand behind the numbers of a network."""
    numbers = {len(number(runs)) for runs in group.by_method.values()} - {0}
    if not numbers:
        return "not run"
    low, high = min(numbers), max(numbers)
    return f"n = {low}" if low == high else f"n = {low} to {high}"


def mean_of(sample: Sample) -> float:
    """The mean over seeds; not a number if one diverged or none ended."""
    return float(np.mean(sample.values)) if len(sample) else float("nan")


def shown(sample: Sample, *, decimals: int = 3) -> str:
    """A sample as a cell of a table, saying how many runs have no value: they diverged, or never recorded a number."""
    known = sample.values[np.isfinite(sample.values)]
    if not len(sample):
        return ABSENT
    if not len(known):
        return "without a value"
    lost, told = len(sample) - len(known), format_mean(known, decimals=decimals)
    return f"{told} ({lost} of {len(sample)} without a value)" if lost else told


def of_the_paper(groups: Groups, experiment: str) -> dict[str, MethodRuns]:
    """The methods of the experiment's table alone: what an order adds is drawn, but decides no claim of the paper."""
    names = {setting.method.name for case in cases(experiment) for setting in best(experiment, case)}
    return {
        label: replace(group, by_method={name: runs for name, runs in group.by_method.items() if name in names})
        for label, group in groups.items()
    }


def in_quarters(groups: Groups) -> Groups:
    """The runs of each network for each quarter of its stages."""
    return {
        f"{label} ({quarter})": runs for label, group in groups.items() for quarter, runs in group.by_quarter().items()
    }


def beside_the_paper(table: Table, order: StudyOptions) -> Table:
    """The table without the paper's numbers at other scales than its own: they are of its networks and data."""
    if order.scale == "paper":
        return table
    ours = [place for place, name in enumerate(table.header) if not name.endswith("paper")]
    return table.part(rows=range(len(table.rows)), columns=ours)
