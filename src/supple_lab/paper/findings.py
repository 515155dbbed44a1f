"""Findings: a claim holds if the whole 95% interval of the mean is on its side, and fails if it is on the other.

Claims over several conditions are counted; a verdict that a few of them are enough for must outlast so many looks.
"""

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
from scipy import special

from supple_lab.report.figure import Finding, Part, Verdict
from supple_lab.results.intervals import format_mean, mean_interval
from supple_lab.results.results import Sample

ROUNDING = 1e-12  # relative; differences of equal accuracies come out this far apart
CHANCE = 0.05  # of a wrong verdict, at most
NOT_RUN = Finding(measured="", interval=None, n=0, verdict="not run")


def known_mean(sample: Sample) -> float:
    """The mean over the seeds that have a value; infinite if none has."""
    return float(sample.known.mean()) if len(sample.known) else float("inf")


def divergence(samples: Mapping[str, Sample]) -> str:
    """Which methods diverged in how many seeds, for a finding that counts them where they ended; empty if none did."""
    lost = {name: len(sample) - len(sample.known) for name, sample in samples.items()}
    seeds = {name: "1 seed" if len(sample) == 1 else f"{len(sample)} seeds" for name, sample in samples.items()}
    words = ", ".join(f"{name} in {count} of {seeds[name]}" for name, count in lost.items() if count)
    return f"diverged and lost there: {words}" if words else ""


def measured(sample: Sample, verdict: Verdict, quantity: str, chance: float) -> Finding:
    """A finding on one number a seed, with what keeps it from being decided."""
    values, known = np.asarray(sample, dtype=float), sample.known
    if not len(values):
        return NOT_RUN
    lost = len(values) - len(known)
    without = f"; {lost} of {len(values)} without a value (diverged), so not decided" if lost else ""
    flat = "; two equal seeds have no spread, so not decided" if is_equal_pair(values) else ""
    return Finding(
        measured=f"{format_mean(known) if len(known) else 'no value'}: {quantity}{without}{flat}",
        interval=None if lost else interval_of(values),
        n=len(values),
        verdict=verdict,
        chance=chance,
        runs=sample.runs,
    )


def interval_of(values: np.ndarray) -> tuple[float, float] | None:
    """The interval that decides; none for one seed, and none for two without any spread."""
    return None if is_equal_pair(values) else mean_interval(values)


def is_equal_pair(values: np.ndarray) -> bool:
    """Whether these are two seeds that came out equal but for rounding."""
    return len(values) == 2 and bool(np.ptp(values) <= ROUNDING * max(1.0, np.abs(values).max()))


def side_of(sample: Sample, threshold: float) -> Verdict:
    """Where the interval lies: "holds" above the threshold, "fails" below it."""
    interval = interval_of(np.asarray(sample, dtype=float))
    if interval is None:
        return "not decided"
    if min(interval) > threshold:
        return "holds"
    return "fails" if max(interval) < threshold else "not decided"


def opposite(verdict: Verdict) -> Verdict:
    """What the mirrored rule says."""
    mirror: dict[Verdict, Verdict] = {"holds": "fails", "fails": "holds"}
    return mirror.get(verdict, verdict)


def chance_of(sample: Sample, threshold: float) -> float:
    """Student's two-sided p: how often a truth on the threshold gives a mean so far from it; 1 if undecidable."""
    values = np.asarray(sample, dtype=float)
    if interval_of(values) is None or not np.isfinite(values).all():
        return 1.0
    distance, error = abs(values.mean() - threshold), values.std(ddof=1) / math.sqrt(len(values))
    if not error:
        return 0.0 if distance else 1.0
    return float(2.0 * special.stdtr(len(values) - 1, -distance / error))


def undecided(finding: Finding, why: str = "") -> Finding:
    """The finding, not decided for this reason."""
    measured = "; ".join(filter(None, (finding.measured, why)))
    return replace(finding, verdict="not decided", measured=measured, chance=1.0)


def counted(found: Mapping[str, Finding], at_least: int) -> Finding:
    """Holds if so many of the cases hold, fails if so many cannot any more."""
    ran = [one for one in found.values() if one.verdict != "not run"]
    num_holding, num_failing = (sum(one.verdict == verdict for one in ran) for verdict in ("holds", "fails"))
    verdict: Verdict = "fails" if len(found) - num_failing < at_least else "not decided"
    verdict = "not run" if not ran else "holds" if num_holding >= at_least else verdict
    return Finding(
        measured=f"holds in {num_holding} of {len(found)} (at least {at_least}?)" if ran else "",
        interval=None,
        n=min((one.n for one in ran), default=0),
        verdict=verdict,
        chance=1.0 if verdict == "not decided" else 0.0,
        runs=tuple(dict.fromkeys(run for one in found.values() for run in one.runs)),
        parts=tuple(Part(name=name, **contents_of(one)) for name, one in found.items()),
    )


def contents_of(finding: Finding) -> dict[str, Any]:
    """What makes a finding, without what makes it a part or a row."""
    return {field.name: getattr(finding, field.name) for field in fields(Finding)}


def in_at_least(number: int, found: Mapping[str, Finding]) -> Finding:
    """The same; not decided if chance alone may do as much after so many looks."""
    whole = counted(found, number)
    needed = {"holds": number, "fails": len(found) - number + 1}.get(whole.verdict)
    if needed is None:
        return replace(whole, remark=remark_of(found))
    looks = sum(one.verdict != "not run" for one in found.values())
    chances = sorted(one.chance for one in found.values() if one.verdict == whole.verdict)
    chance = min(1.0, (looks - needed + 1) * chances[needed - 1])  # of so many such verdicts if one fewer is true
    if chance <= CHANCE:
        return replace(whole, chance=chance)
    remark = f"after {looks} looks that may be chance (p = {chance:.2g}), so not decided"
    return replace(whole, verdict="not decided", remark=remark, chance=1.0)


def agreed(found: Mapping[str, Finding]) -> Finding:
    """Holds if each reading of the paper holds, fails if each fails."""
    verdicts = {one.verdict for one in found.values()}
    verdict = verdicts.pop() if len(verdicts) == 1 else "not decided"
    is_decided = verdict in ("holds", "fails")
    number = sum(one.verdict == "holds" for one in found.values())
    return replace(
        counted(found, len(found)),
        measured="" if verdict == "not run" else f"holds by {number} of {len(found)} readings (all or none?)",
        verdict=verdict,
        chance=max(one.chance for one in found.values()) if is_decided else float(verdict == "not decided"),
        remark="" if is_decided else remark_of(found),
    )


def remark_of(found: Mapping[str, Finding]) -> str:
    """Which cases are open by chance alone, for a claim over them that is open, too; nothing if none is."""
    named = ", ".join(name for name, one in found.items() if one.remark)
    return f"what decides {named} may be chance after so many looks, so not decided there" if named else ""


def provided(finding: Finding, guards: Mapping[str, Finding]) -> Finding:
    """The finding if each precondition holds, with the chance of the least sure of all; else not decided."""
    if finding.verdict == "not run":
        return finding
    runs = tuple(dict.fromkeys((*finding.runs, *(run for one in guards.values() for run in one.runs))))
    unmet = {name: one for name, one in guards.items() if one.verdict != "holds"}
    if not unmet:
        return replace(finding, chance=max(finding.chance, *(one.chance for one in guards.values())), runs=runs)
    reasons = [
        ", ".join(filter(None, (f"precondition {name}: {one.verdict}", one.brief)))
        for name, one in unmet.items()
        if one.verdict == "fails" or finding.verdict != "not decided"  # what is open anyway is open for its own reason
    ]
    return replace(undecided(finding, "; ".join(reasons)), runs=runs)
