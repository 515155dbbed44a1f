"""Verdicts: a claim holds when the whole 95% interval of the mean is on its side, fails when it is on the other.

Two seeds that came out equal decide nothing: their interval is a point, and rounding alone makes such pairs.
"""

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Required, TypedDict, Unpack

import numpy as np
from scipy import special

from supple_lab.report.figure import ClaimRow, Finding, Part, Verdict
from supple_lab.results.intervals import format_mean, mean_interval
from supple_lab.results.results import Sample

Values = Sample | np.ndarray  # one number a run
Interval = tuple[float, float]
ROUNDING = 1e-12  # relative; differences of equal accuracies come out this far apart


class Words(TypedDict, total=False):
    """What is said of a claim besides the numbers."""

    claim: Required[str]
    paper: Required[str]
    section: str
    study: str
    rule: str
    runs: tuple[str, ...]  # where the values are a Sample, its own


def claim_above(values: Values, threshold: float, *, quantity: str, **words: Unpack[Words]) -> ClaimRow:
    """The claim that the mean over seeds lies above the threshold."""
    verdict = _side(_interval(values), threshold)
    return _row(values, verdict, f"{quantity} (above {threshold:g}?)", words, chance_of(values, threshold))


def claim_below(values: Values, threshold: float, *, quantity: str, **words: Unpack[Words]) -> ClaimRow:
    """The claim that the mean over seeds lies below the threshold."""
    verdict = _opposite(_side(_interval(values), threshold))
    return _row(values, verdict, f"{quantity} (below {threshold:g}?)", words, chance_of(values, threshold))


def claim_difference_above(
    one: Sample, other: Sample, margin: float = 0.0, *, quantity: str, **words: Unpack[Words]
) -> ClaimRow:
    """The claim that one exceeds the other by more than the margin, seed by seed."""
    return claim_above(one.minus(other), margin, quantity=quantity, **words)


def claim_difference_below(
    one: Sample, other: Sample, margin: float = 0.0, *, quantity: str, **words: Unpack[Words]
) -> ClaimRow:
    """The claim that one minus the other stays below the margin, seed by seed."""
    return claim_below(one.minus(other), margin, quantity=quantity, **words)


def claim_equal(one: Sample, other: Sample, margin: float, *, quantity: str, **words: Unpack[Words]) -> ClaimRow:
    """The claim that both are equal up to the margin: holds when the difference's interval is inside, fails outside."""
    difference = one.minus(other)
    interval = _interval(difference)
    sides = _side(interval, -margin), _opposite(_side(interval, margin))
    verdict: Verdict = "fails" if "fails" in sides else "holds" if sides == ("holds", "holds") else "not decided"
    chance = max(chance_of(difference, edge) for edge in (-margin, margin))  # of the nearer edge, inside and outside
    return _row(difference, verdict, f"{quantity} (within ±{margin:g}?)", words, chance)


def claim_in_groups(rows: Mapping[str, ClaimRow], at_least: int, **words: Unpack[Words]) -> ClaimRow:
    """The claim that another one holds in at least so many of the groups, such as datasets or games."""
    ran = [row for row in rows.values() if row.verdict != "not run"]
    num_holding, num_failing = (sum(row.verdict == verdict for row in ran) for verdict in ("holds", "fails"))
    runs = tuple(dict.fromkeys(run for row in rows.values() for run in row.runs))
    spoken: Words = {"runs": runs, **words}
    verdict = _count(num_holding, num_failing, len(rows), at_least) if ran else "not run"
    return ClaimRow(
        measured=f"holds in {num_holding} of {len(rows)} (at least {at_least}?)" if ran else "",
        interval=None,
        n=min((row.n for row in ran), default=0),
        parts=tuple(part_of(name, row) for name, row in rows.items()),
        verdict=verdict,
        chance=1.0 if verdict == "not decided" else 0.0,
        **spoken,
    )


def part_of(name: str, row: ClaimRow) -> Part:
    """The row of one condition, with its own parts, as a part of a claim over several."""
    return Part(name=name, **{field.name: getattr(row, field.name) for field in fields(Finding)})


def not_run(**words: Unpack[Words]) -> ClaimRow:
    """The row of a claim that nothing was run for."""
    return ClaimRow(measured="", interval=None, n=0, verdict="not run", **words)


def chance_of(values: Values, threshold: float) -> float:
    """Student's two-sided p: how often a truth on the threshold gives a mean so far from it; 1 where undecidable."""
    numbers = np.asarray(values, dtype=float)
    if _interval(numbers) is None or not np.isfinite(numbers).all():
        return 1.0
    distance, error = abs(numbers.mean() - threshold), numbers.std(ddof=1) / math.sqrt(len(numbers))
    if not error:
        return 0.0 if distance else 1.0
    return float(2.0 * special.stdtr(len(numbers) - 1, -distance / error))


def _interval(values: Values) -> Interval | None:
    """The interval that decides; none for one seed, and none for two without any spread."""
    numbers = np.asarray(values, dtype=float)
    return None if is_equal_pair(numbers) else mean_interval(numbers)


def is_equal_pair(numbers: np.ndarray) -> bool:
    """Whether these are two seeds that came out equal but for rounding."""
    return len(numbers) == 2 and bool(np.ptp(numbers) <= ROUNDING * max(1.0, np.abs(numbers).max()))


def _row(values: Values, verdict: Verdict, quantity: str, words: Words, chance: float) -> ClaimRow:
    numbers = np.asarray(values, dtype=float)
    known = numbers[np.isfinite(numbers)]
    spoken: Words = {"runs": values.runs, **words} if isinstance(values, Sample) else words
    if not len(numbers):
        return not_run(**spoken)
    lost = len(numbers) - len(known)
    without = f"; {lost} of {len(numbers)} without a value (diverged), so not decided" if lost else ""
    flat = "; two equal seeds have no spread, so not decided" if is_equal_pair(numbers) else ""
    return ClaimRow(
        measured=f"{format_mean(known) if len(known) else 'no value'}: {quantity}{without}{flat}",
        interval=None if lost else _interval(numbers),
        n=len(numbers),
        verdict=verdict,
        chance=chance,
        **spoken,
    )


def _side(interval: Interval | None, threshold: float) -> Verdict:
    """Where the interval lies: "holds" above the threshold, "fails" below it."""
    if interval is None:
        return "not decided"
    if min(interval) > threshold:
        return "holds"
    return "fails" if max(interval) < threshold else "not decided"


def _opposite(verdict: Verdict) -> Verdict:
    mirror: dict[Verdict, Verdict] = {"holds": "fails", "fails": "holds"}
    return mirror.get(verdict, verdict)


def _count(num_holding: int, num_failing: int, number: int, at_least: int) -> Verdict:
    if num_holding >= at_least:
        return "holds"
    return "fails" if number - num_failing < at_least else "not decided"
