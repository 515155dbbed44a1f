"""Condition: one problem and network under which a study compares methods, each with the paper's settings for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from supple.methods.base import Method
from supple_lab import lookup
from supple_lab.models.base import Model
from supple_lab.report.results import Results
from supple_lab.runs.problem import Problem
from supple_lab.runs.spec import RunSpec
from supple_lab.studies.hyperparameters import best, find, search
from supple_lab.studies.hyperparameters.setting import Case, Setting
from supple_lab.studies.order import USUAL_SEEDS, Order, Seeds


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What every run of the condition has in common, and where its methods' settings stand."""

    label: str  # what a panel is called
    problem: Problem
    model: Model
    experiment: str  # a name of studies/hyperparameters
    case: Case | None = None  # the block of its table
    methods: tuple[str, ...] = ()  # none: all of the table
    seeds: Seeds = USUAL_SEEDS
    given: tuple[Setting, ...] | None = None  # what to run in place of the table and of the order's methods

    def settings(self, order: Order) -> list[Setting]:
        """Methods and optimizers to run; one the table lacks runs at its defaults with the first row's optimizer."""
        if self.given is not None:
            return list(self.given)
        rows = self.rows(order)
        wanted = [*(order.methods or self.methods or [row.method.name for row in rows]), *order.also]
        return [setting for name in dict.fromkeys(wanted) for setting in settings_of(name, rows)]

    @property
    def has_search(self) -> bool:
        """Whether the paper tried several settings for it."""
        return find(self.experiment).search is not None

    def rows(self, order: Order) -> list[Setting]:
        """The paper's table, or what was searched for it."""
        choose = search if order.search and self.has_search else best
        return choose(self.experiment, self.case, as_printed=order.as_printed)

    def specs(self, order: Order) -> list[RunSpec]:
        """The runs of the condition."""
        return list(_specs(self, order))

    def of(self, results: Results, order: Order) -> Results:
        """The results of this condition's runs alone."""
        own = {spec.run_id for spec in self.specs(order)}
        return Results(tuple(run for run in results.runs if run.spec.run_id in own))


@lru_cache(maxsize=64)  # a report asks three times for the same ones, and each takes its time to name its run
def _specs(condition: Condition, order: Order) -> tuple[RunSpec, ...]:
    asked = condition.seeds.at(order.scale) if order.num_seeds is None else order.num_seeds
    return tuple(
        RunSpec(
            problem=condition.problem,
            model=condition.model,
            method=method,
            optimizer=optimizer,
            seed=seed,
            precision=order.precision,
        )
        for seed in range(max(asked, order.min_seeds))
        for method, optimizer in condition.settings(order)
    )


def settings_of(name: str, rows: Sequence[Setting]) -> list[Setting]:
    """The rows of one method."""
    own = [row for row in rows if row.method.name == name]
    return own or [Setting(at_defaults(lookup.find(Method, name)), rows[0].optimizer)]


def at_defaults(cls: type[Method]) -> Method:
    """The method as a study runs it that knows no settings for it."""
    if (needed := lookup.needed_field(cls)) is not None:
        raise lookup.UnknownName(
            f"a study runs the method {cls.name} at its defaults, and {cls.__name__}.{needed} has none; give "
            f"it one, or run it by itself: supple train --method {cls.name} --method.{needed.replace('_', '-')}"
        )
    return cls()
