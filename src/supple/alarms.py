"""Alarms: what has changed for the worse since the first reading of a run, and what that means for learning.

A number warns if it has changed by its limit in some hidden layer, in each of the latest three readings. The limits
were chosen on one half of a set of small trainings; what they notice and where they are wrong was counted on the
other half: docs/results/monitor_reference.md, which a test compares with this file.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from supple.monitor_table import Reading

WATCH, LIKELY = 1, 2
LASTING = 3  # readings in a row
FEWEST = 0.5  # of the first reading's samples: fewer are not compared, because a smaller batch changes shares by itself
FEWEST_UNITS = 8  # chance alone moves the shares of smaller layers
Limits = Mapping[str, tuple[float, float]]  # to watch, and from which on a loss is likely
# Shares lost of the units that fired, of rows that got gradients, of directions; weights as multiples.
LIMITS: Limits = {
    "dormant": (math.inf, 0.8),
    "dead_gradient": (0.35, 0.6),
    "srank": (0.8, math.inf),
    "weight_norm": (10**0.8, 10**1.5),
}
WITHOUT_GRADIENTS: Limits = {
    "dormant": (0.6, 0.75),
    "srank": (0.8, math.inf),
    "weight_norm": (10**0.8, 10**1.5),
}
# Of the healthy trainings warned of, and of the ruined ones warned of a stage before, in percent.
RATES = {WATCH: (34, 75), LIKELY: (3, 45)}
RATES_WITHOUT_GRADIENTS = {WATCH: (23, 80), LIKELY: (1, 29)}
NEXT = {WATCH: "Next: supple.diagnose", LIKELY: "Next: supple.plasticity_gap"}
NAMES = {WATCH: "watch", LIKELY: "plasticity loss likely"}


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """``change`` says what happened, ``consequence`` what that does to learning."""

    level: int
    layer: str
    change: str
    consequence: str


def changes_since(first: Reading, latest: Sequence[Reading]) -> list[Alarm]:
    """Return what is wrong in the latest readings beside the first one, the worst first."""
    if len(latest) < LASTING:
        return []
    now = latest[-1]
    found = []
    for key, limits in (LIMITS if has_gradients(now) else WITHOUT_GRADIENTS).items():
        changes = [largest_change(key, reading, first) for reading in latest]
        least = min(change for change, _ in changes)
        level = LIKELY if least >= limits[1] else WATCH if least >= limits[0] else 0
        if level:
            layer = changes[-1][1]
            words, consequence = in_words(key, hidden(now)[layer][key], hidden(first)[layer][key])
            text = words.format(step=first.step)
            found.append(Alarm(level=level, layer=layer, change=text, consequence=consequence))
    return sorted(found, key=lambda alarm: -alarm.level)


def has_gradients(reading: Reading) -> bool:
    return any(row.dead_gradient is not None for row in reading.layers)


def basis(steps: str, *, with_gradients: bool) -> str:
    """Return what the verdict compares, and how often such verdicts were right."""
    rates = RATES if with_gradients else RATES_WITHOUT_GRADIENTS
    counted = "; ".join(
        f"'{NAMES[level]}' came in {h}% of healthy ones, and in time in {r}% of ruined"
        for level, (h, r) in rates.items()
    )
    where = "In the reference trainings (docs/results/monitor_reference.md) "
    return f"compared with step {steps}. {where}{counted}. supple.plasticity_gap measures what they only suggest"


def is_comparable(reading: Reading, first: Reading) -> bool:
    return reading.num_samples >= FEWEST * first.num_samples


def divergences(reading: Reading) -> list[Alarm]:
    """Return the layers that have numbers which are not finite."""
    found = []
    for row in reading.layers:
        finite = {
            "activations": row.units is None or row.units.finite,
            "weights": math.isfinite(row.weight_norm or 0.0),
            "gradient": math.isfinite(row.gradient_norm or 0.0),
        }
        if not all(finite.values()):
            text = f"not finite: its {', '.join(what for what, is_finite in finite.items() if not is_finite)}"
            found.append(Alarm(level=WATCH, layer=row.name, change=text, consequence="the training has diverged"))
    return found


def hidden(reading: Reading) -> dict[str, dict[str, float]]:
    """Return the numbers of the layers that feed enough units."""
    return {
        row.name: row.scalars()
        for row in reading.layers
        if row.units is not None and row.units.num_units >= FEWEST_UNITS
    }


def largest_change(key: str, reading: Reading, first: Reading) -> tuple[float, str]:
    """Return by how much the number of some hidden layer is worse, and which layer."""
    now, start = hidden(reading), hidden(first)
    changes = [
        (change_of(key, now[name][key], row[key]), name) for name, row in start.items() if key in row and name in now
    ]
    return max(changes, default=(-math.inf, ""))


def change_of(key: str, now: float, start: float) -> float:
    """Return how much worse the number is: a share of what was good, or how many times as large."""
    if key == "srank":
        return 1.0 - now / start if start > 0.0 else 0.0
    if key == "weight_norm":
        return now / start if start > 0.0 else 0.0
    return (now - start) / (1.0 - start) if start < 1.0 else 0.0


def in_words(key: str, now: float, start: float) -> tuple[str, str]:
    """Return what changed, with a place for the first step, and what follows."""
    shares = f"{now:.0%} of its {{what}}, {start:.0%} at step {{{{step}}}}"
    if key == "dormant":
        return shares.format(what="units never fire"), "units that never fire do not learn"
    if key == "dead_gradient":
        return shares.format(what="units get no gradient"), "such units do not learn"
    if key == "srank":
        text = f"its activations have {now:.0f} directions, {start:.0f} at step {{step}}"
        return text, "the layers behind it can tell fewer inputs apart"
    grown = f"its weights are {now / start:.1f} times as large as at step {{step}}"
    return grown, "the larger they are, the less a step changes"


def headline(alarms: Sequence[Alarm], first: Reading | None, *, num_compared: int) -> str:
    """Return one line that a person can act on."""
    if alarms:
        worst = max(alarms, key=lambda alarm: alarm.level)
        start = f"watch layer {worst.layer}" if worst.level == WATCH else f"plasticity loss likely: layer {worst.layer}"
        return f"{start}: {worst.change}. {NEXT[worst.level]}"
    if first is None or num_compared < LASTING:
        return f"no verdict yet: it takes {LASTING} readings after the first"
    start = f"healthy: no layer is far from where it was at step {first.step}"
    return f"{start}; if it was bad then, supple.diagnose shows it"
