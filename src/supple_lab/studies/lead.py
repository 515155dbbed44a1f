"""Lead: by how much one method is above the best other one, and what a verdict owes to rivals that diverged or wait."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from supple_lab.report.figure import ClaimRow
from supple_lab.report.sample import Sample
from supple_lab.report.verdict import Words, claim_above, not_run
from supple_lab.studies.chosen import Chosen
from supple_lab.studies.comparison import Number
from supple_lab.studies.groups import unless_by_chance
from supple_lab.studies.labels import label_of
from supple_lab.studies.paired import where_ended


def lead(group: Chosen, method: str, *, number: Number, quantity: str, words: Words) -> ClaimRow:
    """The claim that a method is above the best other one, full reset included, seed by seed.

    A seed in which another method diverged is one that it lost; in the seeds where it ended it counts in full. While
    one has no run that ended, the best of them is not known: the claim may fail, but not hold. The best of many may
    look so by chance, so that the claim fails only if it would after as many looks (groups.py).
    """
    own, others = number(group.of(method)), {name: number(group.of(name)) for name in group.by_method if name != method}
    leads = {name: own.minus(where_ended(sample)) for name, sample in others.items()}
    leads = {name: sample for name, sample in leads.items() if len(sample)}
    if not leads:
        return without_rivals(own, others, words)
    closest = min(leads, key=lambda name: known_mean(leads[name]))
    quantity = f"{quantity}, {label_of(method)} minus {label_of(closest)}, the best other"
    row = claim_above(leads[closest], 0.0, quantity=quantity, **words)
    row = replace(row, measured="; ".join(filter(None, (row.measured, divergence(others)))))
    if row.verdict == "fails":
        row = unless_by_chance(row, min(1.0, row.chance * len(leads)), looks=len(leads))
    return unless_waiting(row, [label_of(name) for name, sample in others.items() if not len(sample)])


def without_rivals(own: Sample, others: Mapping[str, Sample], words: Words) -> ClaimRow:
    """The row of a method that has nothing to be compared with: nothing was run, or every other diverged."""
    row, told = not_run(**words), divergence(others)
    return replace(row, verdict="not decided", measured=told, n=len(own)) if len(own) and told else row


def known_mean(sample: Sample) -> float:
    """The mean over the seeds that have a value; infinite where none has."""
    known = sample.values[np.isfinite(sample.values)]
    return float(known.mean()) if len(known) else float("inf")


def divergence(samples: Mapping[str, Sample]) -> str:
    """Which methods diverged in how many seeds, for a row that counts them where they ended; empty where none did."""
    lost = {name: int(np.count_nonzero(~np.isfinite(sample.values))) for name, sample in samples.items()}
    told = (f"{label_of(name)} in {number} of {len(samples[name])} seeds" for name, number in lost.items() if number)
    words = ", ".join(told)
    return f"diverged and lost there: {words}" if words else ""


def unless_waiting(row: ClaimRow, waiting: Sequence[str]) -> ClaimRow:
    """The row, which must not hold while some of what it is measured against has not run."""
    if row.verdict != "holds" or not waiting:
        return row
    return replace(row, verdict="not decided", measured=f"{row.measured}; not run yet: {', '.join(waiting)}")
