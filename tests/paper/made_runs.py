"""Made runs: finished, waiting and diverged runs of a study, as a store would give them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile

import numpy as np

from supple_lab.paper.study import Study, StudyOptions
from supple_lab.report.figure import ClaimRow, StudyReport
from supple_lab.results.results import Results, RunResult
from supple_lab.spec import RunSpec

ACCURACIES = ("test_accuracy", "learned_test_accuracy", "online_accuracy")
# By metric a value a stage; or accuracies, at every stage the same or one a stage; None: has not run.
Values = Mapping[str, Sequence[float]] | float | Sequence[float] | None


def made(specs: Iterable[RunSpec], values_of: Callable[[RunSpec], Values]) -> Results:
    """Each spec as a run with these values; it diverged if they are fewer than its stages, or not numbers from then."""
    return Results(tuple(made_run(spec, values_of(spec)) for spec in specs))


def made_run(spec: RunSpec, values: Values) -> RunResult:
    """One run; the second epoch of a stage is as good as its end."""
    if values is None:
        return RunResult(spec=spec, state="waiting", seconds=0.0, reason="", records=())
    rows = values if isinstance(values, Mapping) else of_accuracies(spec, values)
    number = min(spec.problem.scenario.num_stages, *map(len, rows.values()))
    records = tuple({"stage": stage} | {name: row[stage] for name, row in rows.items()} for stage in range(number))
    epochs = tuple({**record, "epoch": epoch} for record in records for epoch in range(2))
    state = "done" if number == spec.problem.scenario.num_stages else "diverged"
    return RunResult(spec=spec, state=state, seconds=1.0, reason="", records=records, read_epochs=lambda: epochs)


def of_accuracies(spec: RunSpec, values: float | Sequence[float]) -> dict[str, Sequence[float]]:
    """All that a stage records of these test accuracies, as far as studies of networks read it."""
    row = [values] * spec.problem.scenario.num_stages if isinstance(values, float) else values
    known = np.array(list(takewhile(np.isfinite, row)))
    losses = {"test_loss": 1.0 - known, "online_loss": 0.5 - known / 2}
    return {"train_accuracy": np.ones(len(known)), **dict.fromkeys(ACCURACIES, known), **losses}


def wavering(spec: RunSpec, accuracy: float) -> float:
    """The accuracy with a little of the seed in it, the same for all methods of a seed."""
    return accuracy + 0.001 * spec.seed


def drawn(study: Study, order: StudyOptions, values_of: Callable[[RunSpec], Values]) -> StudyReport:
    """What the study makes of all its runs."""
    return study.draw(made(study.specs(order), values_of), order)


def claims(study: Study, order: StudyOptions, values_of: Callable[[RunSpec], Values]) -> tuple[ClaimRow, ...]:
    return drawn(study, order, values_of).claims


def verdicts(study: Study, order: StudyOptions, values_of: Callable[[RunSpec], Values]) -> list[str]:
    """In the order of the study's claims."""
    return [claim.verdict for claim in claims(study, order, values_of)]
