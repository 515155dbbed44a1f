"""Verdicts: a claim holds when the whole interval of the mean is on its side, fails when it is on the other."""

import numpy as np

from supple_lab.report.figure import ClaimRow, Verdict
from supple_lab.report.intervals import mean_interval, show


def claim_above(values: np.ndarray, threshold: float, *, claim: str, paper: str, quantity: str) -> ClaimRow:
    """The claim that the mean over seeds lies above the threshold."""
    return _row(values, threshold, 1.0, claim=claim, paper=paper, quantity=f"{quantity} (above {threshold:g}?)")


def claim_below(values: np.ndarray, threshold: float, *, claim: str, paper: str, quantity: str) -> ClaimRow:
    """The claim that the mean over seeds lies below the threshold."""
    return _row(values, threshold, -1.0, claim=claim, paper=paper, quantity=f"{quantity} (below {threshold:g}?)")


def _row(values: np.ndarray, threshold: float, sign: float, *, claim: str, paper: str, quantity: str) -> ClaimRow:
    interval = mean_interval(values)
    return ClaimRow(
        claim=claim,
        paper=paper,
        measured=f"{show(values)}: {quantity}" if len(values) else "",
        interval=interval,
        n=len(values),
        verdict=_decide(interval, threshold, sign) if len(values) else "not run",
    )


def _decide(interval: tuple[float, float] | None, threshold: float, sign: float) -> Verdict:
    if interval is None:
        return "not decided"
    margins = [sign * (end - threshold) for end in interval]
    if min(margins) > 0:
        return "holds"
    return "fails" if max(margins) < 0 else "not decided"
