"""Alarms: what has changed for the worse since the first reading of a run, and what that means for learning.

The wear of a hidden layer is the sum of what it lost, each from 0, as at the first reading, to 1: the share of its
directions, the share of its units that fired, and its weights' growth, of which a hundredfold is 1. A network is as
worn as the mean of its hidden layers. That warns if it reaches a limit in each of the latest three readings. If the
plasticity gap is measured, its latest value is added, of which 0.5, where plasticity counts as lost, is 1.

The limits were chosen on a set of small trainings; what they notice and where they are wrong was counted on others:
docs/results/monitor_reference.md, which a test compares with this file.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from supple.monitor_table import Reading, directions

WATCH, LIKELY = 1, 2
LASTING = 3  # readings in a row
FEWEST = 0.5  # of the first reading's samples: fewer are not compared, because a smaller batch changes shares by itself
FEWEST_UNITS = 8  # chance alone moves the shares of smaller layers
DECADES, VALUE = 2.0, 0.5  # of weight growth, and of the gap, that count as much as all directions lost
Layers = Mapping[str, Mapping[str, float]]  # the numbers of each hidden layer
# Wear to watch, and from which on a loss is likely; and of the healthy trainings warned of, and of the ruined ones
# warned of a stage before, in percent, with each. By whether the gap is measured.
LIMITS = {False: (0.69, 0.93), True: (0.93, 1.35)}
RATES = {False: {WATCH: (11, 78), LIKELY: (6, 61)}, True: {WATCH: (10, 100), LIKELY: (2, 79)}}
NEXT = {WATCH: "Next: supple.diagnose", LIKELY: "Next: supple.plasticity_gap"}
NAMES = {WATCH: "watch", LIKELY: "plasticity loss likely"}


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """``change`` says what happened, ``consequence`` what that does to learning."""

    level: int
    layer: str  # empty: the network
    change: str
    consequence: str

    @property
    def where(self) -> str:
        return f"layer {self.layer}" if self.layer else "the network"


def wear_since(first: Reading, reading: Reading) -> float:
    return wear_of(hidden(reading), hidden(first))


def lasting_wear(first: Reading, latest: Sequence[Reading], gap: float | None) -> float:
    """Return the least wear of the latest readings, with what the gap's latest value adds, if it is measured."""
    return min(wear_since(first, reading) for reading in latest) + (0.0 if gap is None else lost_by_gap(gap))


def wear_of(now: Layers, start: Layers) -> float:
    """Return the mean wear of the hidden layers that are in both: a forward may leave some out."""
    wears = [sum(lost_by(now[name], begun).values()) for name, begun in start.items() if name in now]
    return sum(wears) / len(wears) if wears else 0.0


def lost_by(now: Mapping[str, float], start: Mapping[str, float]) -> dict[str, float]:
    """Return how much of each number a layer has lost; all of it if it is NaN."""
    lost = {}
    if start["dormant"] < 1.0:  # first, because dead units are the cause if directions are lost as well
        lost["dormant"] = (now["dormant"] - start["dormant"]) / (1.0 - start["dormant"])
    if start["srank"] > 0.0:
        lost["srank"] = 1.0 - now["srank"] / start["srank"]
    if "weight_norm" in now and start.get("weight_norm", 0.0) > 0.0:
        growth = now["weight_norm"] / start["weight_norm"]
        lost["weight_norm"] = 0.0 if growth == 0.0 else math.log10(growth) / DECADES
    return {key: share(value) for key, value in lost.items()}


def lost_by_gap(value: float) -> float:
    return 0.0 if math.isnan(value) else share(value / VALUE)


def share(value: float) -> float:
    return 1.0 if math.isnan(value) else min(max(value, 0.0), 1.0)


def changes_since(first: Reading, latest: Sequence[Reading], gap: float | None = None) -> list[Alarm]:
    """Return what is wrong in the latest readings beside the first one, the worst first."""
    if len(latest) < LASTING:
        return []
    start, now = hidden(first), hidden(latest[-1])
    wear, by_gap = lasting_wear(first, latest, gap), 0.0 if gap is None else lost_by_gap(gap)
    watch, likely = LIMITS[gap is not None]
    if wear < watch:
        return []
    level, found = LIKELY if wear >= likely else WATCH, []
    if by_gap > wear - by_gap:  # more than the layers show
        change = f"its plasticity gap is {gap:.2f}, where {VALUE:g} counts as lost"
        found.append(Alarm(level=level, layer="", change=change, consequence="it learns less than new networks do"))
    lost = {name: lost_by(now[name], begun) for name, begun in start.items() if name in now}
    totals = {name: sum(parts.values()) for name, parts in lost.items()}
    least = min(wear_of(now, start), max(totals.values(), default=0.0))  # rounded, a mean can be above all
    for name in sorted(totals, key=lambda name: -totals[name]):
        if totals[name] >= least and totals[name] > 0.0:  # the others are less worn than the network
            worst = max(lost[name], key=lost[name].__getitem__)
            words, consequence = in_words(worst, now[name][worst], start[name][worst])
            change = words.format(step=first.step)
            found.append(Alarm(level=level, layer=name, change=change, consequence=consequence))
    return found


def basis(steps: str, *, with_gap: bool) -> str:
    """Return what the verdict compares, and how often such verdicts were right."""
    counted = "; ".join(
        f"'{NAMES[level]}' came in {h}% of healthy ones, and in time in {r}% of ruined"
        for level, (h, r) in RATES[with_gap].items()
    )
    gap = ", their gap measured as each stage ended on the data that came next," if with_gap else ""
    where = f"In new trainings{gap} (docs/results/monitor_reference.md) "
    return f"compared with step {steps}. {where}{counted}. supple.plasticity_gap measures what they only suggest"


def is_comparable(reading: Reading, first: Reading) -> bool:
    return reading.num_samples >= FEWEST * first.num_samples


def divergences(reading: Reading) -> list[Alarm]:
    """Return the layers that have numbers which are not finite."""
    found = []
    for row in reading.layers:
        finite = {
            "activations": row.units is None or math.isfinite(row.units.dormant),
            "weights": math.isfinite(row.weight_norm or 0.0),
            "gradient": math.isfinite(row.gradient_norm or 0.0),
        }
        if not all(finite.values()):
            text = f"not finite: its {', '.join(what for what, is_finite in finite.items() if not is_finite)}"
            found.append(Alarm(level=WATCH, layer=row.name, change=text, consequence="the training has diverged"))
    return found


def hidden(reading: Reading) -> Layers:
    """Return the numbers of the layers that feed enough units."""
    return {
        row.name: row.scalars()
        for row in reading.layers
        if row.units is not None and row.units.num_units >= FEWEST_UNITS
    }


def in_words(key: str, now: float, start: float) -> tuple[str, str]:
    """Return what changed, with a place for the first step, and what follows."""
    shares = f"{now:.0%} of its {{what}}, {start:.0%} at step {{{{step}}}}"
    if key == "dormant":
        return shares.format(what="units never fire"), "units that never fire do not learn"
    if key == "srank":
        text = f"its activations have {directions(now)}, {start:.0f} at step {{step}}"
        return text, "the layers behind it can tell fewer inputs apart"
    grown = f"its weights are {now / start:.1f} times as large as at step {{step}}"
    return grown, "the larger they are, the less a step changes"


def headline(alarms: Sequence[Alarm], first: Reading | None, latest: Sequence[Reading], gap: float | None) -> str:
    """Return one line that a person can act on."""
    if alarms:
        worst = max(alarms, key=lambda alarm: alarm.level)
        start = f"watch {worst.where}" if worst.level == WATCH else f"plasticity loss likely: {worst.where}"
        return f"{start}: {worst.change}. {NEXT[worst.level]}"
    if first is None or len(latest) < LASTING:
        return f"no verdict yet: it takes {LASTING} readings after the first"
    if hidden(first).keys().isdisjoint(hidden(latest[-1])):
        return f"no verdict: no hidden layer of {FEWEST_UNITS} units or more is there to judge by"
    wear = f"healthy: wear {lasting_wear(first, latest, gap):.2f} since step {first.step}"
    return f"{wear}, watch from {LIMITS[gap is not None][0]:g} on; if it was bad then, supple.diagnose shows it"
