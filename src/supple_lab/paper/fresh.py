"""Fresh: how far a method ends below a fresh vanilla network, the number that the claims on trainability rest on.

The reference is a vanilla network that starts anew at each stage (full reset), with the seed, the optimizer and the
learning rate of the block. A method keeps its plasticity if the mean over its last tenth of the stages is less than
KEPT below the reference, and has lost it if it is more than LOST below; between the two nothing is decided. The bounds
are the same for all methods, problems and accuracies. Not the first tenth minus the last: that falls the less, the
earlier a network collapses, and a network that never learned falls not at all.

Stage k is a draw of one law that depends on (seed, k) alone (scenarios/base.py). So the reference needs no more than a
tenth of the stages, and where it was not run the first stage of the vanilla run of that seed stands in for it: a fresh
vanilla network too, one draw in place of many. The noise of that one draw is part of the interval over seeds.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Unpack

import numpy as np

from supple.methods.full_reset import FullReset
from supple_lab.paper.groups import provided
from supple_lab.paper.study import Condition, StudyOptions
from supple_lab.paper.tables.setting import Setting
from supple_lab.report.figure import ClaimRow
from supple_lab.report.verdict import Words, claim_above, claim_below
from supple_lab.results.results import Results, Sample
from supple_lab.scenarios.base import Scenario
from supple_lab.spec import Supervised

# Two points: what two set-ups of one protocol differ by (our supervised CNNs lie up to 1.1 points below the paper's).
KEPT = 0.02
# Five points: the laboratory's bound between two levels of accuracy, and what a figure of the paper shows at a glance.
LOST = 0.05
LEARNED = 0.1 + LOST  # chance among ten classes, and five points: a reference below it has nothing to keep
VANILLA = "a fresh vanilla network"
NO_REFERENCE = "no fresh reference run, so not decided"


def reference(condition: Condition, order: StudyOptions) -> Condition:
    """A vanilla network that starts anew at each stage, for a tenth of the condition's stages."""
    problem = condition.problem
    assert isinstance(problem, Supervised)
    optimizer = next(row.optimizer for row in condition.rows(order) if row.method.name == "vanilla")
    return replace(
        condition,
        label=f"{condition.label}, fresh reference",
        problem=Supervised(scenario=shortened(problem.scenario), dataset=problem.dataset),
        given=(Setting(FullReset(), optimizer),),
    )


def shortened(scenario: Scenario) -> Scenario:
    """The first tenth of the stages."""
    return replace(scenario, num_stages=tenth(scenario.num_stages))  # type: ignore[type-var]


def fresh_accuracy(references: Results, vanilla: Results, metric: str) -> Sample:
    """What a fresh vanilla network comes to, a number a seed: the reference run's, or the vanilla run's first stage."""
    own, stand_in = references.stage_mean(metric), vanilla.sample(lambda run: first_of(run.values(metric)))
    others = stand_in.of_seeds(set(stand_in.seeds) - set(own.seeds))
    return Sample(
        values=np.concatenate((own.values, others.values)),
        seeds=own.seeds + others.seeds,
        runs=own.runs + others.runs,
    )


def stand_in_notes(names: Mapping[str, tuple[Results, Results]]) -> tuple[str, ...]:
    """Where the first stage of a vanilla run stands in for a reference run, for the page; pairs as fresh_accuracy's."""
    missing = {
        name: sorted({run.spec.seed for run in vanilla.ended} - {run.spec.seed for run in references.ended})
        for name, (references, vanilla) in names.items()
    }
    told = "; ".join(f"{name}, seed {', '.join(map(str, seeds))}" for name, seeds in missing.items() if seeds)
    return (f"No fresh reference run, so the first stage of the vanilla run stands in for it: {told}.",) if told else ()


def claim_kept(end: Sample, fresh: Sample, *, than: str = VANILLA, **words: Unpack[Words]) -> ClaimRow:
    """The claim that a method keeps its plasticity: holds when kept, fails when lost."""
    if len(end) and not len(fresh):
        return without_reference(end, words)
    below = fresh.minus(end)
    row = claim_below(below, KEPT, quantity=f"last tenth below {than}, lost above {LOST:g}", **words)
    if row.verdict == "fails":
        row = fails_by(claim_above(below, LOST, quantity="", **words), row)
    return something_to_keep(row, fresh.of_seeds(end.seeds), words)


def claim_lost(end: Sample, fresh: Sample, **words: Unpack[Words]) -> ClaimRow:
    """The claim that a method loses its plasticity: holds when lost, fails when kept."""
    if len(end) and not len(fresh):
        return without_reference(end, words)
    below = fresh.minus(end)
    row = claim_above(below, LOST, quantity=f"last tenth below {VANILLA}, kept below {KEPT:g}", **words)
    if row.verdict == "fails":
        row = fails_by(claim_below(below, KEPT, quantity="", **words), row)
    return something_to_keep(row, fresh.of_seeds(end.seeds), words)


def fails_by(opposite: ClaimRow, row: ClaimRow) -> ClaimRow:
    """The row, which fails only where the opposite claim holds by its own bound; else not decided."""
    if opposite.verdict == "holds":
        return replace(row, verdict="fails", chance=opposite.chance)
    return replace(row, verdict="not decided", chance=1.0)


def something_to_keep(row: ClaimRow, fresh: Sample, words: Words) -> ClaimRow:
    """The row, not decided unless a fresh vanilla network learns."""
    return provided(row, {"a fresh network learns": claim_above(fresh, LEARNED, quantity="its accuracy", **words)})


def without_reference(end: Sample, words: Words) -> ClaimRow:
    """The row of a method that has run where neither a reference nor a vanilla network has."""
    spoken: Words = {**words, "runs": end.runs}
    return ClaimRow(measured=NO_REFERENCE, interval=None, n=len(end), verdict="not decided", chance=1.0, **spoken)


def ends(results: Results, metric: str) -> Sample:
    """The mean over the last tenth of the stages, a number a run that ended."""
    return results.sample(lambda run: last_tenth(run.values(metric)))


def last_tenth(values: np.ndarray) -> float:
    """The mean over the last tenth of the stages, one at least; not a number without any."""
    return float(values[-tenth(len(values)) :].mean()) if len(values) else float("nan")


def first_of(values: np.ndarray) -> float:
    """The value of the first stage; not a number without any."""
    return float(values[0]) if len(values) else float("nan")


def tenth(number: int) -> int:
    """How many stages are a tenth, one at least."""
    return max(1, round(number / 10))
