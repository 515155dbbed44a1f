"""Compare: what figures and tables call methods, and the curves, panels, bars and tables that studies share."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from supple_lab.optimizer import Optimizer
from supple_lab.paper.study import StudyOptions
from supple_lab.report.figure import Band, Level, Line, Panel, Table
from supple_lab.report.tables import ABSENT, best_of_columns
from supple_lab.results.intervals import format_mean, mean_and_std
from supple_lab.results.results import Results, Sample

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
    "aid_per_unit": "AID per unit",
    "leaky_dropout": "leaky ReLU + Dropout",
    "layer_norm_aid": "LayerNorm + AID",
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


BAND = "line: mean over seeds, band: one standard deviation."
MAX_POINTS = 100  # of a curve: more of them are a thick band of noise
ByMethod = Mapping[str, Results]


def stage_curves(by_method: ByMethod, metric: str, *, band: Band = "deviation") -> tuple[Line, ...]:
    """One curve for each method there is anything to draw of; the band is one standard deviation, as in the paper."""
    size = num_averaged(by_method, metric)
    return tuple(
        stage_curve(name, results, metric, size=size, band=band)
        for name, results in by_method.items()
        if results.drawn and len(results.stages(metric))
    )


def stage_curve(method: str, results: Results, metric: str, *, size: int, band: Band) -> Line:
    """The metric's means over so many stages at a time, each drawn at the last of them."""
    stages, values = results.stages(metric) + 1, results.matrix(metric)
    starts = np.arange(0, len(stages), size)
    ends = np.append(starts[1:], len(stages))
    means = np.add.reduceat(values, starts, axis=1) / (ends - starts)
    return Line.over_seeds(method=method, label=label_of(method), x=stages[ends - 1], values=means, band=band)


def num_averaged(by_method: ByMethod, metric: str) -> int:
    """How many stages a point stands for: one, unless a curve had more points than can be told apart."""
    longest = max((len(results.stages(metric)) for results in by_method.values()), default=1)
    return max(1, math.ceil(longest / MAX_POINTS))


def stage_panel(
    title: str,
    by_method: ByMethod,
    metric: str,
    *,
    y_label: str,
    stage: str = "stage",
    band: Band = "deviation",
    **axes: Any,
) -> Panel:
    size = num_averaged(by_method, metric)
    x_label = stage if size == 1 else f"{stage} (points: means of {size})"
    curves = stage_curves(by_method, metric, band=band)
    return Panel(title=title, x_label=x_label, y_label=y_label, curves=curves, **axes)


def difference_panel(
    title: str, pairs: Mapping[str, tuple[Results, Results]], metric: str, *, y_label: str, zero: str
) -> Panel:
    """One minus the other at each stage, a curve a method; the line at zero has a name."""
    curves = (difference_curve(name, *pair, metric=metric) for name, pair in pairs.items())
    return Panel(
        title=title,
        x_label="stage",
        y_label=y_label,
        curves=tuple(curve for curve in curves if len(curve.x)),
        levels=(Level(label=zero, value=0.0),),
    )


def difference_curve(method: str, one: Results, other: Results, *, metric: str) -> Line:
    """Seed by seed, at the stages that a seed has both of."""
    ours, theirs = ({run.spec.seed: run.by_stage(metric) for run in results.drawn} for results in (one, other))
    seeds = [seed for seed in ours if seed in theirs]
    stages = sorted({stage for seed in seeds for stage in ours[seed].keys() & theirs[seed].keys()})
    rows = [[ours[seed].get(stage, np.nan) - theirs[seed].get(stage, np.nan) for stage in stages] for seed in seeds]
    values = np.array(rows, dtype=float).reshape(len(seeds), len(stages))
    return Line.over_seeds(method=method, label=label_of(method), x=np.array(stages) + 1, values=values)


def bar(method: str, label: str, samples: Sequence[Sample]) -> Line:
    """The mean and one standard deviation of each sample; no bar if a run diverged or none ended."""
    numbers = [mean_and_std(sample.values) if len(sample) else (np.nan, np.nan) for sample in samples]
    means, deviations = np.array(numbers).T
    return Line(
        method=method,
        label=label,
        x=np.arange(len(samples)),
        middle=means,
        low=means - deviations,
        high=means + deviations,
        n=max(map(len, samples)),
    )


def sample_table(
    name: str,
    caption: str,
    *,
    rows: Iterable[Any],
    columns: Mapping[str, Callable[..., Any]],
    best: Collection[str] = (),
) -> Table:
    """A line for each row, or for the parts of a tuple; the best mean of some columns in bold."""
    lines = [[of(*row) if isinstance(row, tuple) else of(row) for of in columns.values()] for row in rows]
    places = [place for place, header in enumerate(columns) if header in best]
    means = np.array([[mean_of(line[place]) for place in places] for line in lines], dtype=float)
    return Table(
        name=name,
        caption=caption,
        header=tuple(columns),
        rows=tuple(tuple(format_sample(it) if isinstance(it, Sample) else str(it) for it in line) for line in lines),
        bold=best_of_columns(means.reshape(len(lines), len(places)), columns=places),
    )


def span_of(counts: Iterable[int]) -> str:
    """The least and the most of those that are above 0."""
    known = sorted(set(counts) - {0}) or [0]
    return str(known[0]) if len(known) == 1 else f"{known[0]} to {known[-1]}"


def mean_of(sample: Sample) -> float:
    """The mean over seeds; not a number if one diverged or none ended."""
    return float(np.mean(sample.values)) if len(sample) else float("nan")


def format_sample(sample: Sample, *, decimals: int = 3) -> str:
    """A sample as a cell of a table, with how many runs have no value: they diverged, or never recorded a number."""
    if not len(sample):
        return ABSENT
    if not len(sample.known):
        return "without a value"
    lost, text = len(sample) - len(sample.known), format_mean(sample.known, decimals=decimals)
    return f"{text} ({lost} of {len(sample)} without a value)" if lost else text


def beside_the_paper(table: Table, order: StudyOptions) -> Table:
    """The table without the paper's numbers at other scales than its own: they are of its networks and data."""
    if order.scale == "paper":
        return table
    ours = [place for place, name in enumerate(table.header) if not name.endswith("paper")]
    return table.part(rows=range(len(table.rows)), columns=ours)
