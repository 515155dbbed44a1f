"""Fields of a spec by name: what results are narrowed down and grouped by."""

from collections.abc import Callable
from functools import reduce
from typing import Any

from supple_lab import lookup
from supple_lab.data.slice import Slice
from supple_lab.runs.dqn_problem import DQN
from supple_lab.runs.problem import Supervised
from supple_lab.runs.spec import RunSpec


def dataset_of(spec: RunSpec) -> str:
    """The dataset's name, a slice with that of what it is cut from; without a dataset, the game's or the problem's."""
    problem = spec.problem
    if isinstance(problem, DQN):
        return getattr(problem.game, "title", problem.game.name)
    if not isinstance(problem, Supervised):
        return problem.name
    dataset = problem.dataset
    return f"slice of {dataset.of.name}" if isinstance(dataset, Slice) else dataset.name


def scenario_of(spec: RunSpec) -> str:
    """The scenario's name; for a problem without one, the problem's own."""
    return spec.problem.scenario.name if isinstance(spec.problem, Supervised) else spec.problem.name


FIELDS: dict[str, Callable[[RunSpec], Any]] = {
    "method": lambda spec: spec.method.name,
    "dataset": dataset_of,
    "scenario": scenario_of,
    "model": lambda spec: spec.model.name,
    "optimizer": lambda spec: spec.optimizer.name,
    "learning_rate": lambda spec: spec.optimizer.learning_rate,
    "seed": lambda spec: spec.seed,
}


def field_of(spec: RunSpec, name: str) -> Any:
    """A named field, or one inside a part ("method.relu_prob"; None where the part has no such field)."""
    if name in FIELDS:
        return FIELDS[name](spec)
    part, *rest = name.split(".")
    if part not in ("problem", "model", "method", "optimizer") or not rest:
        raise LookupError(lookup.no_such("field", name, [*FIELDS, "method.FIELD", "model.FIELD", "problem.FIELD"]))
    return reduce(lambda value, inner: getattr(value, inner, None), rest, getattr(spec, part))
