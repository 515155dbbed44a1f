"""Over stages: what the paper says of a number inside the network throughout training: it is higher, or it declines."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from supple_lab.paper.compare import Chosen, Number, label_of, mean_of_stages, quarters, times, where_ended
from supple_lab.paper.fresh import ends
from supple_lab.paper.groups import in_each
from supple_lab.report.figure import ClaimRow
from supple_lab.report.verdict import Words, claim_above, claim_difference_above, claim_difference_below, not_run
from supple_lab.results.results import Results, Sample

NINE_TENTHS = 0.9  # of the first value: a number that stays above it has not declined
NUM_QUARTERS = 4  # before anything has been measured


def claims_above(one: Results, other: Results, metric: str, *, quantity: str, words: Words) -> dict[str, ClaimRow]:
    """The claim that one is above the other by the mean over each quarter of what was measured, one claim a quarter."""
    parts = quarters(len(one.stages(metric)) or NUM_QUARTERS)
    return {
        f"quarter {place}": claim_difference_above(
            mean_of_stages(one, metric, part),
            mean_of_stages(other, metric, part),
            quantity=f"quarter-mean {quantity}",
            **words,
        )
        for place, part in enumerate(parts, start=1)
    }


def claim_decline(runs: Results, metric: str, *, quantity: str, words: Words) -> ClaimRow:
    """The claim that the last tenth is below nine tenths of the first value, seed by seed."""
    return claim_difference_below(
        ends(runs, metric),
        times(runs.first(metric), NINE_TENTHS),
        quantity=f"{quantity}, last tenth minus nine tenths of the first",
        **words,
    )


def lead(group: Chosen, method: str, *, number: Number, quantity: str, words: Words) -> ClaimRow:
    """The claim that a method is above each other one, full reset included, seed by seed.

    Each rival has an interval of its own: a noisy one may be the best without coming closest. All must be below, and
    one that is above fails the claim if it would after as many looks as there are rivals (groups.py). The row shows the
    closest; the others stand in its sentence by name.
    """
    own, others = number(group.of(method)), {name: number(group.of(name)) for name in group.by_method if name != method}
    quantity = f"{quantity}, {label_of(method)} minus the other"
    rows = {label_of(name): against(own, other, quantity=quantity, words=words) for name, other in others.items()}
    row = in_each(rows, words)
    distances = {label_of(name): known_mean(own.minus(other)) for name, other in others.items()}
    closest = min(distances, key=lambda name: distances[name], default="")
    if not closest or np.isinf(distances[closest]):
        return replace(row, measured=row.listed, parts=())
    told = (f"closest, {closest}: {rows[closest].measured}", row.listed, divergence(others))
    return replace(row, measured="; ".join(filter(None, told)), interval=rows[closest].interval, parts=())


def lead_throughout(
    group: Chosen, method: str, *, metric: str, num_stages: int, quantity: str, words: Words
) -> dict[str, ClaimRow]:
    """The same by the mean over each quarter of the stages, one claim a quarter."""
    numbers = [partial(mean_where_done, metric=metric, stages=part) for part in quarters(num_stages)]
    return {
        f"quarter {place}": lead(group, method, number=number, quantity=f"quarter-mean {quantity}", words=words)
        for place, number in enumerate(numbers, start=1)
    }


def mean_where_done(results: Results, metric: str, stages: slice) -> Sample:
    """The mean over some of the stages; none for a run that diverged at any time: by the rules it lost its seed."""
    means, is_done = mean_of_stages(results, metric, stages), [run.state == "done" for run in results.ended]
    return replace(means, values=np.where(is_done, means.values, np.nan))


def against(own: Sample, other: Sample, *, quantity: str, words: Words) -> ClaimRow:
    """The claim against one rival: in the seeds where that ended, for where it diverged it lost.

    One that diverged in every seed lost all. One that diverged in some can be shown to be below, but not above.
    """
    pairs, ended = own.minus(other), where_ended(other)
    if len(pairs) and not len(ended):
        is_won = len(pairs) > 1 and bool(np.isfinite(own.values).all())
        row = replace(not_run(**words), n=len(pairs), runs=pairs.runs, measured="the other diverged in every seed")
        return replace(row, verdict="holds") if is_won else replace(row, verdict="not decided", chance=1.0)
    row = claim_above(own.minus(ended), 0.0, quantity=quantity, **words)
    if row.verdict != "fails" or len(ended) == len(other):
        return row
    remark = "the other is above where it ended, but diverged elsewhere, so not decided"
    return replace(row, verdict="not decided", measured=f"{row.measured}; {remark}", chance=1.0)


def known_mean(sample: Sample) -> float:
    """The mean over the seeds that have a value; infinite where none has."""
    known = sample.values[np.isfinite(sample.values)]
    return float(known.mean()) if len(known) else float("inf")


def divergence(samples: Mapping[str, Sample]) -> str:
    """Which methods diverged in how many seeds, for a row that counts them where they ended; empty where none did."""
    lost = {name: int(np.count_nonzero(~np.isfinite(sample.values))) for name, sample in samples.items()}
    told = (f"{label_of(name)} in {number} of {seeds_in(samples[name])}" for name, number in lost.items() if number)
    words = ", ".join(told)
    return f"diverged and lost there: {words}" if words else ""


def seeds_in(sample: Sample) -> str:
    """How many seeds a sample has, in words."""
    return "1 seed" if len(sample) == 1 else f"{len(sample)} seeds"
