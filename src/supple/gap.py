"""Plasticity gap: can a network still go the way that a fresh one goes?

Copies of the model and fresh networks train on the same batches in the same order, seed by seed. Of their mean losses
in evaluation mode on a fixed set, before (start) and after (end):

    value = 1 - (start - end) / (start - fresh end)         0: goes as far as a fresh network, 1: does not move
    level = (end - fresh end) / (fresh start - fresh end)   how far above a fresh network it ends

Both compare the two ends, so value = (end - fresh end) / (start - fresh end). Intervals are t-intervals over seeds.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from supple.fields import checked, shown
from supple.fresh_networks import new_network, placed_
from supple.gap_training import (
    Loss,
    MakeNetwork,
    MakeOptimizer,
    Training,
    copied,
    first_batches,
    with_random_targets,
)
from supple.metrics.observe import eager
from supple.random import kept_loader_generators, mask_stream
from supple.unchanged import undisturbed

Verdict = Literal["plastic", "plasticity lost", "nothing to learn", "not decided"]
Targets = Literal["data", "random"]
Rates = tuple[float | None, float | None]  # of the model's copies and of the fresh networks

ADAM_RATE = 1e-3  # torch's default
RATES = (3e-4, 1e-3, 3e-3)  # what lr="best" tries
NUM_INTERVALS = 12  # of a curve; 3 are a quarter of the budget, 6 are half of it
QUARTER, HALF = NUM_INTERVALS // 4, NUM_INTERVALS // 2
# How near to the fresh end is at it, as a share of the fresh networks' way. On digits a network trained as long as
# fresh ones starts within 0.2% of their end, which itself varies by 0.2% between seeds.
AT_THE_END = 0.01
# Of the fresh networks' first loss. Digits under random labels, MLPs: 0.003 in 200 steps at 1e-5, 0.005 in 300 at 0.3,
# but 0.33 in 300 at 2e-3.
HARDLY = 0.02
NEAR_THE_END = 0.1  # with a way that may be 0: beyond it a network that does not move would pass for one that arrived
# Student's t at 97.5%, of 1 to 30 degrees of freedom; with more of them the last one is a little too wide.
T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
ADVICE: dict[Verdict, str] = {
    "plasticity lost": "It no longer learns what a new network learns. Next: supple.diagnose looks for the cause.",
    "plastic": "If training goes badly, the reason is another one: learning rate, stale optimizer, forgetting, data.",
    "nothing to learn": "It starts where fresh networks end. Ask with data that are new to it, or targets='random'.",
    "not decided": "What fresh networks gain is too little or too uncertain. Try more steps, lr='best', more seeds.",
}
UNSURE = "The interval reaches above 0.5, so plasticity loss is not ruled out. Try more seeds."
BEHIND = "It still learns, yet ends above a fresh network. Watch the value from stage to stage."
SLOW = "warning: fresh networks hardly learned in this budget, so little follows. Try more steps, or lr='best'."
WORSE = "warning: it ends above the loss with which fresh networks start, so its value flatters it. Read the level."
RANDOM = "The targets were random labels in place of the data's own: another question."
EXAMPLES = {
    "fresh": "that makes a network, e.g. lambda: Net(64, 10)",
    "loss": "of output and target, e.g. nn.functional.cross_entropy",
    "optimizer": "of parameters, e.g. lambda parameters: torch.optim.SGD(parameters, 0.1)",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class PlasticityGap:
    """What `plasticity_gap` found.

    ``curves`` has "steps", and for "model" and "fresh" the losses, seeds x steps, nan from where a network diverged;
    it counts as not having moved. ``quarter`` and ``half`` are the value at these parts of the budget, nan if the fresh
    networks are not clearly below the model's start by then. ``lr`` are the learning rates of model and fresh networks,
    None if the optimizer's own. Without anything to learn the value is nan.
    """

    value: float
    interval: tuple[float, float]
    level: float
    level_interval: tuple[float, float]
    verdict: Verdict
    curves: dict[str, Tensor]
    quarter: float
    half: float
    lr: Rates
    targets: Targets

    @property
    def is_worse(self) -> bool:
        """Whether it ends above the loss with which fresh networks start, by the interval, and still falls."""
        return self.verdict == "plastic" and self.level_interval[0] > 1.0

    def headline(self) -> list[str]:
        """Return the warnings, then the verdict with its numbers."""
        numbers = [named("value", self.value, self.interval), named("level", self.level, self.level_interval)]
        start, end = (counted(self.curves["fresh"])[:, place].mean() for place in (0, -1))
        is_slow = self.verdict != "not decided" and bool(start - end < HARDLY * start.abs())
        found = ": ".join(filter(None, (self.verdict, ", ".join(filter(None, numbers)))))
        return [SLOW] * is_slow + [WORSE] * self.is_worse + [f"{found} (95%, {len(self.curves['model'])} seeds)"]

    def __str__(self) -> str:
        steps, num_seeds, lines = self.curves["steps"].tolist(), len(self.curves["model"]), self.headline()
        for who, rate in zip(("model", "fresh"), self.lr, strict=True):
            curves = self.curves[who]
            lines.append(f"{who}: loss {curves[:, 0].mean():.4g} -> {curves[:, -1].nanmean():.4g} in {steps[-1]} steps")
            lines[-1] += "" if rate is None else f", learning rate {rate:g}"
            if diverged := int((~curves.isfinite()).any(1).sum()):
                lines[-1] += f"; diverged in {diverged} of {num_seeds} seeds, which counts as not having moved"
        if not math.isnan(self.value):
            early = {steps[QUARTER]: self.quarter, steps[HALF]: self.half}
            known = ", after ".join(f"{at} {value:.2f}" for at, value in early.items() if not math.isnan(value))
            lines += [f"value after {known.replace(' ', ' steps ', 1)}"] if known else []
        lines += [RANDOM] if self.targets == "random" else []
        advice = ADVICE[self.verdict]
        if self.verdict == "plastic" and self.level_interval[0] > 0.0:
            advice = ADVICE["plasticity lost"] if self.is_worse else BEHIND
        if self.verdict == "plastic" and self.interval[1] > 0.5:
            advice = UNSURE
        return "\n  ".join((*lines, advice))

    __repr__ = __str__

    def plot(self, axes: Any = None) -> Any:
        """Draw both curves, mean and range over seeds, on the matplotlib ``axes`` or on new ones; return the axes."""
        try:
            from matplotlib import pyplot, ticker
        except ImportError as error:
            raise ImportError("gap.plot() draws with matplotlib; install it: pip install matplotlib.") from error
        if axes is None:
            axes = pyplot.figure(figsize=(6.4, 4.0), layout="constrained").subplots()
        steps = self.curves["steps"].tolist()
        for who, colour, dashes in (("model", "#d55e00", "-"), ("fresh", "#0072b2", "--")):  # Okabe and Ito's
            curves = self.curves[who]
            low, high = curves.nan_to_num(math.inf).amin(0), curves.nan_to_num(-math.inf).amax(0)
            axes.fill_between(steps, low.tolist(), high.tolist(), color=colour, alpha=0.2, linewidth=0)
            axes.plot(steps, curves.nanmean(0).tolist(), dashes, color=colour, linewidth=2.0, label=who)
        title = ": ".join(filter(None, (self.verdict, named("value", self.value, self.interval))))
        axes.set_title(title, loc="left", fontweight="bold")
        axes.set(xlabel="steps", ylabel="loss on random labels" if self.targets == "random" else "loss")
        model, fresh = (self.curves[who].nan_to_num() for who in ("model", "fresh"))
        if min(model.min(), fresh.min()) > 0.0 and model.max() > 3.0 * fresh.max():
            axes.set_yscale("log")  # or all but the model's start lies flat
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter(ticker.LogFormatter(minor_thresholds=(2.0, 0.5)))
        axes.margins(x=0.02)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        return axes


def plasticity_gap(
    model: nn.Module,
    *,
    fresh: MakeNetwork,
    data: Iterable[Any],
    loss: Loss | None = None,
    test: Iterable[Any] | None = None,
    steps: int = 500,
    seeds: int = 3,
    optimizer: MakeOptimizer | None = None,
    lr: float | Literal["best"] | None = None,
    targets: Targets = "data",
) -> PlasticityGap:
    """Train copies of the model and fresh networks on the same data, and compare how far they go.

    The verdict is "not decided" if fresh networks gain less than three standard errors. It is "nothing to learn" if the
    model starts at the fresh end: by the mean within 1% of the fresh networks' way, or by an interval that holds 0 and
    ends within 10% of it; if the interval holds 0 and ends beyond that, "not decided". It is "plasticity lost" if
    value > 0.5 and level > 0 beyond their intervals; else "plastic". The model, its modes and gradients, and all random
    states are left as they were.

    fresh: makes a new network of the same architecture. Seeds are set before each call, so it should set none.
    data: batches (x, y), or dicts of the forward's arguments. The first ``steps`` of them are taken, in an order by
        seed, as often as needed. What is no Sequence is read into a list.
    loss: of output and y; of a dict, of output and batch, or None if the output has a ``loss``.
    test: the batches on which losses are taken; by default the data.
    optimizer: a function of parameters, Adam by default, for both, of one whose step needs no closure. It is not given
        frozen parameters, which stay frozen in the copies. The state of the model's own optimizer plays no part.
    lr: a learning rate for both; "best" tries 3e-4, 1e-3 and 3e-3 for each, and takes the one with the lowest end.
    targets: "random" asks another question, about the data's labels dealt out at random.
    """
    check_arguments(
        model, fresh=fresh, loss=loss, test=test, steps=steps, seeds=seeds, optimizer=optimizer, lr=lr, targets=targets
    )
    model = eager(model.module if isinstance(model, DistributedDataParallel) else model)
    points = [round(steps * number / NUM_INTERVALS) for number in range(NUM_INTERVALS + 1)]
    rates = RATES if lr == "best" else (ADAM_RATE if lr is None and optimizer is None else lr,)
    with undisturbed(data), kept_loader_generators(test), mask_stream(None), torch.inference_mode(mode=False):
        batches = first_batches(data, steps, loss=loss)
        examined = None if test is None else first_batches(test, None, loss=loss, what="test data")
        found = []
        for rate, seed in itertools.product(rates, range(seeds)):
            given = with_random_targets(batches, seed) if targets == "random" else batches
            training = Training(
                batches=given,
                examined=given if examined is None else examined,
                loss=loss,
                optimizer=optimizer or torch.optim.Adam,
                rate=rate,
                points=points,
                seed=seed,
                device=next(model.parameters()).device,
            )
            makers = lambda: copied(model), lambda: placed_(copied(new_network(fresh, model)), like=model)
            found.append([training.curve(make) for make in makers])
    curves = torch.tensor(found, dtype=torch.float64).unflatten(0, (len(rates), seeds))  # x (model, fresh) x points
    best = counted(curves)[..., -1].mean(1).nan_to_num(math.inf).argmin(0).tolist()
    chosen = (curves[number, :, who] for who, number in enumerate(best))
    return judged(*chosen, steps=points, lr=(rates[best[0]], rates[best[1]]), targets=targets)


def judged(model: Tensor, fresh: Tensor, *, steps: Sequence[int], lr: Rates, targets: Targets) -> PlasticityGap:
    """Return value, level and verdict from losses of seeds x points."""
    ours, theirs = counted(torch.where(model[:, :1].isfinite(), model, fresh[:, :1])), counted(fresh)
    behind, way, gain = ours - theirs, ours[:, :1] - theirs, theirs[:, :1] - theirs
    value, interval = ratio(behind[:, -1], way[:, -1])
    level, level_interval = ratio(behind[:, -1], gain[:, -1])
    verdict: Verdict = "plasticity lost" if interval[0] > 0.5 and level_interval[0] > 0.0 else "plastic"
    whole, left, width = float(gain[:, -1].mean()), float(way[:, -1].mean()), half_width(way[:, -1])
    if not whole > 3.0 * standard_error(gain[:, -1]):
        verdict = "not decided"
    elif left <= AT_THE_END * whole or (left <= width and left + width <= NEAR_THE_END * whole):
        verdict, value, interval = "nothing to learn", math.nan, (math.nan, math.nan)
    elif left <= width:
        verdict = "not decided"
    # A way that may be 0, or nearly is, would divide what lies behind to any number.
    quarter, half = (
        ratio(behind[:, at], way[:, at])[0]
        if float(way[:, at].mean()) > max(half_width(way[:, at]), NEAR_THE_END * whole)
        else math.nan
        for at in (QUARTER, HALF)
    )
    return PlasticityGap(
        value=value,
        interval=interval,
        level=level,
        level_interval=level_interval,
        verdict=verdict,
        curves={"steps": torch.tensor(steps), "model": model, "fresh": fresh},
        quarter=quarter,
        half=half,
        lr=lr,
        targets=targets,
    )


def counted(curves: Tensor) -> Tensor:
    """The losses as they count: a network that diverged did not move."""
    return torch.where(curves.isfinite(), curves, curves[..., :1])


def ratio(part: Tensor, whole: Tensor) -> tuple[float, tuple[float, float]]:
    """The ratio of means over seeds, and the t-interval of its linear approximation; nan if there is no whole."""
    mean = float(whole.mean())
    if not mean > 0.0:
        return math.nan, (math.nan, math.nan)
    middle = float(part.mean()) / mean
    width = half_width(part - middle * whole) / mean
    return middle, (middle - width, middle + width)


def half_width(values: Tensor) -> float:
    """Half of the 95% t-interval of a mean over seeds."""
    return T[min(len(values) - 1, len(T)) - 1] * standard_error(values)


def standard_error(values: Tensor) -> float:
    return float(values.std()) / math.sqrt(len(values))


def named(name: str, middle: float, interval: tuple[float, float]) -> str:
    return "" if math.isnan(middle) else f"{name} {middle:.2f} [{interval[0]:.2f}, {interval[1]:.2f}]"


def check_arguments(
    model: Any,
    *,
    fresh: Any,
    loss: Any = None,
    test: Any = None,
    steps: Any = NUM_INTERVALS,
    seeds: Any = 2,
    optimizer: Any = None,
    lr: Any = None,
    targets: Any = "data",
) -> None:
    if not isinstance(model, nn.Module) or not any(True for _ in model.parameters()):
        raise TypeError(f"plasticity_gap needs a model with parameters, an nn.Module; got {shown(model)}.")
    for name, function in {"fresh": fresh, "loss": loss, "optimizer": optimizer}.items():
        is_made = isinstance(function, torch.optim.Optimizer) or (name == "fresh" and isinstance(function, nn.Module))
        if is_made or not (callable(function) or (function is None and name != "fresh")):
            raise TypeError(f"plasticity_gap's {name} must be a function {EXAMPLES[name]}; got {shown(function)}.")
    checked(targets, Targets, "plasticity_gap's targets")
    if lr not in (None, "best") and checked(lr, float, "plasticity_gap's lr") <= 0.0:
        raise ValueError(f"plasticity_gap's lr is a learning rate above 0, or 'best'; got {lr}.")
    for name, count, least in (("steps", steps, NUM_INTERVALS), ("seeds", seeds, 2)):
        if checked(count, int, f"plasticity_gap's {name}") < least:
            raise ValueError(f"plasticity_gap's {name} must be at least {least}; got {count}.")
    if targets == "random" and test is not None:
        raise ValueError("random labels can be learned on the data alone; leave plasticity_gap's test out.")
