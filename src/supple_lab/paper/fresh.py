"""Fresh: how far a method ends below a fresh vanilla network, the number that the claims on trainability rest on.

The reference is a vanilla network that starts anew at each stage (full reset), with the seed, the optimizer and the
learning rate of the block. Kept and Lost (claims.py) say which distances count, the same for all methods, problems and
accuracies. Not the first tenth minus the last: that falls the less, the
earlier a network collapses, and a network that never learned falls not at all.

Stage k is a draw of one law that depends on (seed, k) alone (scenarios/base.py). So the reference needs no more than a
tenth of the stages, and if it was not run the first stage of the vanilla run of that seed stands in for it: a fresh
vanilla network too, one draw in place of many. The noise of that one draw is part of the interval over seeds.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from supple.methods.full_reset import FullReset
from supple_lab.paper.study import Condition, StudyOptions
from supple_lab.paper.tables import Setting
from supple_lab.results.results import Results, Sample
from supple_lab.spec import Supervised


def reference(condition: Condition, order: StudyOptions) -> Condition:
    """A vanilla network that starts anew at each stage, for a tenth of the condition's stages."""
    problem = condition.problem
    assert isinstance(problem, Supervised)
    optimizer = next(row.optimizer for row in condition.rows(order) if row.method.name == "vanilla")
    scenario = replace(problem.scenario, num_stages=tenth(problem.scenario.num_stages))  # type: ignore[type-var]
    return replace(
        condition,
        label=f"{condition.label}, fresh reference",
        problem=Supervised(scenario=scenario, dataset=problem.dataset),
        given=(Setting(FullReset(), optimizer),),
    )


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
