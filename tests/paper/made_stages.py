"""Made stages: runs of a study with any values at their stages, as a store would give them."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from supple_lab.results.results import Results, RunResult
from supple_lab.spec import RunSpec

Values = Mapping[str, Sequence[float]]  # metric to a value a stage


def made_stages(specs: Iterable[RunSpec], values_of: Callable[[RunSpec], Values | None]) -> Results:
    """Each spec as a run with these values; None: not begun. Fewer values than stages: it diverged there."""
    return Results(tuple(made_run(spec, values_of(spec)) for spec in specs))


def made_run(spec: RunSpec, values: Values | None) -> RunResult:
    """One run."""
    if values is None:
        return RunResult(spec=spec, state="waiting", seconds=0.0, reason="", records=())
    length = min(map(len, values.values()))
    records = tuple({"stage": stage} | {name: row[stage] for name, row in values.items()} for stage in range(length))
    state = "done" if length == spec.problem.scenario.num_stages else "diverged"
    return RunResult(spec=spec, state=state, seconds=1.0, reason="", records=records)


def verdicts(study, results, order):
    """The study's verdicts, in the order of its claims."""
    return [claim.verdict for claim in study.draw(results, order).claims]
