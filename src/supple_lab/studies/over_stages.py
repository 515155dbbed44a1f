"""Over stages: what the paper says of a number inside the network throughout training: it is higher, or it declines."""

from supple_lab.report.figure import ClaimRow
from supple_lab.report.results import Results
from supple_lab.report.verdict import Words, claim_difference_above, claim_difference_below
from supple_lab.studies.fresh import ends
from supple_lab.studies.paired import mean_of_stages, times
from supple_lab.studies.quarters import quarters

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
