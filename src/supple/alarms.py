"""Alarms: what has changed for the worse since the first readings of a run, and what that means for learning.

A run is compared with its own start. Early are the first reading and those of the next two that are near it; an alarm
lies outside of their range by a rule, and by more than their spread.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from supple.monitor_table import LayerRow, Reading

# By number: the change from which on a layer is watched, and that from which on a loss of plasticity is likely. Not yet
# chosen from a set of trainings. Of 19 healthy ones on digits (MLPs, a CNN, a ResNet, a ViT; batches of 16 or 64; 93%
# or more) the worst had lost 0.42 of a layer's units (0.22 at batches of 64) and 0.26 of its directions, and its
# weights had grown by 1.5. Three MLPs that random labels ruined: 0.64 to 1.00, 0.41 to 1.00, 2.6 to 4.7.
RULES = {
    "dormant": (0.5, 0.75),  # share of the units that fired
    "saturated": (0.5, 0.75),  # share of the units that changed sign
    "dead_gradient": (0.5, 0.75),  # share of the rows that got gradients
    "srank": (0.6, 0.8),  # share of the directions
    "weight_norm": (4.0, math.inf),  # growth, as a multiple of the norm
}
OF_UNITS = ("dormant", "saturated", "srank", "dead_gradient")  # a smaller batch changes them by itself
NUM_EARLY = 3
NEAR = 0.5  # of the change that is watched: what may be early
FEWEST = 0.5  # of the early samples: fewer are not compared
FEWEST_UNITS = 8  # chance alone moves the shares of smaller layers
WATCH, LIKELY = 1, 2
NEXT = {
    WATCH: "Next: supple.diagnose",
    LIKELY: "Next: supple.plasticity_gap",
}
BASIS = "compared with the readings of step {steps}; how often this is wrong has not been measured yet"


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """``change`` says what happened, ``consequence`` what that does to learning."""

    level: int
    layer: str
    change: str
    consequence: str


def alarms_of(reading: Reading, early: Sequence[Reading]) -> list[Alarm]:
    """Return what is wrong with the reading beside early ones, the worst first."""
    found = [alarm for row in reading.layers for alarm in layer_alarms(row, reading, early)]
    return sorted(found, key=lambda alarm: -alarm.level)


def layer_alarms(row: LayerRow, reading: Reading, early: Sequence[Reading]) -> Iterator[Alarm]:
    now = row.scalars()
    if diverged := not_finite(row):
        text = f"not finite: its {', '.join(diverged)}"
        yield Alarm(level=WATCH, layer=row.name, change=text, consequence="the training has diverged")
        return
    starts = [start.scalars() for other in early for start in other.layers if start.name == row.name]
    few = reading.num_samples < FEWEST * max((other.num_samples for other in early), default=0)
    few = few or (row.units is not None and row.units.num_units < FEWEST_UNITS)
    said: set[str] = set()
    for key in RULES:
        before = [start[key] for start in starts if key in start]
        is_hidden = row.units is not None or key == "dead_gradient"
        # Dead units are saturated and get no gradient, too; an output layer may start small.
        if key not in now or not before or not is_hidden or (few and key in OF_UNITS) or (said and key != "srank"):
            continue
        if level := level_of(key, now[key], before):
            said.add(key)
            change, consequence = in_words(key, now[key], before[0])
            step = early[0].step
            yield Alarm(level=level, layer=row.name, change=change.format(step=step), consequence=consequence)
    gradients = [start["gradient_norm"] for start in starts if "gradient_norm" in start]
    if not said and now.get("gradient_norm") == 0.0 and gradients and min(gradients) > 0.0:
        text = "no gradient reached it, but some did at the start"
        yield Alarm(level=WATCH, layer=row.name, change=text, consequence="without gradients it does not learn")


def not_finite(row: LayerRow) -> list[str]:
    finite = {
        "activations": row.units is None or row.units.finite,
        "weights": math.isfinite(row.weight_norm or 0.0),
        "gradient": math.isfinite(row.gradient_norm or 0.0),
    }
    return [what for what, is_finite in finite.items() if not is_finite]


def level_of(key: str, now: float, before: Sequence[float]) -> int:
    """Return how serious the change from the early values is; 0: not at all."""
    best, worst = (max(before), min(before)) if key == "srank" else (min(before), max(before))
    change, spread = change_of(key, now, worst), change_of(key, worst, best)
    return (change > spread) * sum(change >= limit for limit in RULES[key])


def change_of(key: str, now: float, start: float) -> float:
    """Return how much worse the number is: a share of what was good, or growth as a multiple."""
    if key == "srank":
        return 1.0 - now / start if start > 1.0 else 0.0
    if key == "weight_norm":
        return now / start - 1.0 if start else 0.0
    return (now - start) / (1.0 - start) if start < 1.0 else 0.0


def is_near(reading: Reading, first: Reading) -> bool:
    """Whether no number of any layer is halfway to being watched."""
    starts = {row.name: row.scalars() for row in first.layers}
    return all(
        change_of(key, value, starts[row.name][key]) < NEAR * RULES[key][0]
        for row in reading.layers
        for key, value in row.scalars().items()
        if key in RULES and key in starts.get(row.name, {})
    )


def in_words(key: str, now: float, start: float) -> tuple[str, str]:
    """Return what changed, with a place for the first step, and what follows."""
    shares = f"{now:.0%} of its {{what}}, {start:.0%} at step {{{{step}}}}"
    if key == "dormant":
        return shares.format(what="units never fire"), "units that never fire do not learn"
    if key == "saturated":
        return shares.format(what="units never change sign"), "such units are linear or dead"
    if key == "dead_gradient":
        return shares.format(what="weight's rows get no gradient"), "such rows do not learn"
    if key == "srank":
        text = f"its activations have {now:.0f} directions, {start:.0f} at step {{step}}"
        return text, "the layers behind it can tell fewer inputs apart"
    grown = f"its weights are {now / start:.1f} times as large as at step {{step}}"
    return grown, "the larger they are, the less a step changes"


def headline(alarms: Sequence[Alarm], early: Sequence[Reading], *, num_readings: int) -> str:
    """Return one line that a person can act on."""
    if alarms:
        worst = max(alarms, key=lambda alarm: alarm.level)
        start = f"watch layer {worst.layer}" if worst.level == WATCH else f"plasticity loss likely: layer {worst.layer}"
        return f"{start}: {worst.change}. {NEXT[worst.level]}"
    if not early or num_readings < 2:
        return "no verdict yet: later readings are compared with the first"
    start = f"healthy: no layer is far from where it was at step {early[0].step}"
    return f"{start}; if it was bad then, supple.diagnose shows it"
