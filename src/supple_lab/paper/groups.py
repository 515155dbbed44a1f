"""By seed: one number for each seed from several samples, where a claim asks for more than a difference."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from supple_lab.report.figure import ClaimRow, Verdict
from supple_lab.report.verdict import Words, claim_in_groups
from supple_lab.results.results import Sample


def by_seed(samples: Sequence[Sample], number_of: Callable[[np.ndarray], float]) -> Sample:
    """The number made of the samples' values for a seed, in the samples' order; for the seeds that all of them have."""
    tables = [dict(zip(sample.seeds, sample.values, strict=True)) for sample in samples]
    seeds = [seed for seed in samples[0].seeds if all(seed in table for table in tables)] if samples else []
    return Sample(
        values=np.array([number_of(np.array([table[seed] for table in tables])) for seed in seeds], dtype=float),
        seeds=tuple(seeds),
        runs=tuple(
            dict.fromkeys(
                run
                for seed in seeds
                for sample in samples
                for own, run in zip(sample.seeds, sample.runs, strict=True)
                if own == seed
            )
        ),
    )


CHANCE = 0.05  # of a wrong verdict, at most


def in_each(rows: Mapping[str, ClaimRow], words: Words) -> ClaimRow:
    """Holds when it holds in each, fails when it fails in one."""
    return in_at_least(len(rows), rows, words)


def in_most(rows: Mapping[str, ClaimRow], words: Words) -> ClaimRow:
    """Holds when more than half hold, fails when half or more fail."""
    return in_at_least(len(rows) // 2 + 1, rows, words)


def in_one(rows: Mapping[str, ClaimRow], words: Words) -> ClaimRow:
    """Holds when at least one holds, fails when all fail."""
    return in_at_least(1, rows, words)


def in_at_least(number: int, rows: Mapping[str, ClaimRow], words: Words) -> ClaimRow:
    """Holds when so many hold, fails when so many cannot any more; not decided where chance alone may do as much."""
    row = claim_in_groups(rows, number, **words)
    needed = {"holds": number, "fails": len(rows) - number + 1}.get(row.verdict)
    if needed is None:
        return replace(row, remark=remark_of(rows))
    ran = [one for one in rows.values() if one.verdict != "not run"]  # nobody looked at the others
    return unless_by_chance(row, joint_chance(ran, row.verdict, needed), looks=len(ran))


def under_both(rows: Mapping[str, ClaimRow], words: Words) -> ClaimRow:
    """Holds when it holds under each reading of the paper, fails when it fails under each: they must agree."""
    verdicts = {row.verdict for row in rows.values()}
    verdict = verdicts.pop() if len(verdicts) == 1 else "not decided"
    is_decided = verdict in ("holds", "fails")
    number = sum(row.verdict == "holds" for row in rows.values())
    return replace(
        claim_in_groups(rows, len(rows), **words),
        measured="" if verdict == "not run" else f"holds by {number} of {len(rows)} readings (all or none?)",
        verdict=verdict,
        chance=max(row.chance for row in rows.values()) if is_decided else float(verdict == "not decided"),
        remark="" if is_decided else remark_of(rows),
    )


def provided(row: ClaimRow, preconditions: Mapping[str, ClaimRow]) -> ClaimRow:
    """The row if each precondition holds; else not decided: where one fails, the claim is about nothing."""
    if row.verdict == "not run":
        return row
    runs = tuple(dict.fromkeys((*row.runs, *(run for one in preconditions.values() for run in one.runs))))
    unmet = {name: one for name, one in preconditions.items() if one.verdict != "holds"}
    if not unmet:
        return replace(row, chance=max(row.chance, *(one.chance for one in preconditions.values())), runs=runs)
    told = [
        ", ".join(filter(None, (f"precondition {name}: {one.verdict}", one.brief)))
        for name, one in unmet.items()
        if one.verdict == "fails" or row.verdict != "not decided"  # what is open anyway is open for its own reason
    ]
    return replace(row, verdict="not decided", measured="; ".join((row.measured, *told)), chance=1.0, runs=runs)


def remark_of(rows: Mapping[str, ClaimRow]) -> str:
    """Which groups are open for chance alone, for a claim over them that is open, too; nothing where none is."""
    named = ", ".join(name for name, row in rows.items() if row.remark)
    return f"what decides {named} may be chance after so many looks, so not decided there" if named else ""


def unless_by_chance(row: ClaimRow, chance: float, *, looks: int) -> ClaimRow:
    """The row with the chance of its verdict after so many looks; not decided where that is more than 5%."""
    if chance <= CHANCE:
        return replace(row, chance=chance)
    remark = f"after {looks} looks that may be chance (p = {chance:.2g}), so not decided"
    return replace(row, verdict="not decided", remark=remark, chance=1.0)


def joint_chance(rows: Sequence[ClaimRow], verdict: Verdict, needed: int) -> float:
    """The chance of so many such verdicts where one fewer is true."""
    chances = sorted(row.chance for row in rows if row.verdict == verdict)
    return min(1.0, (len(rows) - needed + 1) * chances[needed - 1])
