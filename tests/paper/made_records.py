"""Made records: finished, waiting and diverged runs of a study, as a store would give them."""

import math
from collections.abc import Callable, Iterable, Sequence

from supple_lab.results.results import Results, RunResult
from supple_lab.spec import RunSpec
from supple_lab.store.reading import Record

Accuracies = float | Sequence[float] | None  # at every stage the same, or one a stage; None: has not run


def made(specs: Iterable[RunSpec], accuracies: Callable[[RunSpec], Accuracies]) -> Results:
    """Each spec as a run with these test accuracies; a run diverges before the first that is not a number."""
    return Results(tuple(made_run(spec, accuracies(spec)) for spec in specs))


def made_run(spec: RunSpec, accuracies: Accuracies) -> RunResult:
    """One run; the second epoch of a stage is as good as its end."""
    if accuracies is None:
        return RunResult(spec=spec, state="waiting", seconds=0.0, reason="", records=())
    num_stages = spec.problem.scenario.num_stages
    values = [accuracies] * num_stages if isinstance(accuracies, float) else list(accuracies)
    recorded = values[: next((k for k, value in enumerate(values) if math.isnan(value)), num_stages)]
    records = tuple(record(stage, value) for stage, value in enumerate(recorded))
    epochs = tuple({**one, "epoch": epoch} for one in records for epoch in range(2))
    return RunResult(
        spec=spec,
        state="done" if len(recorded) == num_stages else "diverged",
        seconds=1.0,
        reason="",
        records=records,
        read_epochs=lambda: epochs,
    )


def record(stage: int, accuracy: float) -> Record:
    """All that a stage records, as far as these studies read it."""
    names = ("test_accuracy", "learned_test_accuracy", "online_accuracy")
    losses = {"test_loss": 1.0 - accuracy, "online_loss": 0.5 - accuracy / 2}
    return {"stage": stage, "train_accuracy": 1.0, **dict.fromkeys(names, accuracy), **losses}


def wavering(spec: RunSpec, accuracy: float) -> float:
    """The accuracy with a little of the seed in it, the same for all methods of a seed."""
    return accuracy + 0.001 * spec.seed


def verdicts(study, results, order):
    """The study's verdicts, in the order of its claims."""
    return [claim.verdict for claim in study.draw(results, order).claims]
