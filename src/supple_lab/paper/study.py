"""Study: which runs it consists of (StudyOptions, Condition), and what it draws from them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from supple.methods import Method
from supple_lab import registry
from supple_lab.errors import within
from supple_lab.models.base import Model
from supple_lab.options import read
from supple_lab.paper.newer_grids import searched
from supple_lab.paper.tables import EXPERIMENTS, Case, Setting, best, search
from supple_lab.precision import Precision
from supple_lab.registry import UnknownName
from supple_lab.report.figure import ClaimRow, StudyReport
from supple_lab.results.results import Results
from supple_lab.spec import Problem, RunSpec, in_stages

if TYPE_CHECKING:
    from supple_lab.paper.claims import Claim

Scale = Literal["smoke", "quick", "paper", "full"]  # full: the largest of a study that is not the paper's
T = TypeVar("T")


class ByScale(NamedTuple, Generic[T]):
    """What a study has at each scale."""

    smoke: T
    quick: T
    paper: T  # or full

    def at(self, scale: Scale) -> T:
        return getattr(self, scale.replace("full", "paper"))


USUAL_SEEDS = ByScale(smoke=1, quick=3, paper=5)  # the paper's own number, but for VGG-16's 3
MAX_SEEDS = 10_000  # two thousand times the paper's; more is a slip that would take hours to name its runs
KIND = ("scale", "search", "as_printed", "allow_partial", "precision", "changes")  # orders that differ: other grids


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """Which runs a study consists of."""

    scale: Scale = "quick"
    num_seeds: int | None = None  # none: the study's own number
    methods: tuple[str, ...] = ()  # none: the study's own
    search: bool = False  # every setting the paper searched in place of its best
    as_printed: bool = False  # the paper's slips as they are printed
    allow_partial: bool = False  # an incomplete TinyImageNet may be used
    precision: Precision = "default"  # of the runs' matrix products; default: each condition's own
    only: str = ""  # run the conditions alone whose label holds this text
    also: tuple[str, ...] = ()  # methods besides
    min_seeds: int = 0  # at least so many seeds, whatever the study's own number
    changes: tuple[tuple[str, str], ...] = field(default=(), metadata={"later": True})  # fields of methods, as typed

    def __post_init__(self) -> None:
        within(0, MAX_SEEDS, self, "num_seeds", "min_seeds")

    def whole(self, before: "StudyOptions | None" = None) -> "StudyOptions":
        """The grid that a report is about: all of the study, and what this and one of its kind before asked besides."""
        asked = (self,) if before is None else (self, before)
        also = dict.fromkeys(name for order in reversed(asked) for name in (*order.also, *order.methods))
        min_seeds = max(max(order.num_seeds or 0, order.min_seeds) for order in asked)
        return replace(self, methods=(), only="", num_seeds=None, also=tuple(also), min_seeds=min_seeds)

    def differences(self, other: "StudyOptions") -> list[str]:
        """What makes the other's grid another one; empty if both are about the same, or parts of it."""
        return [f"{name} {getattr(other, name)}" for name in KIND if getattr(other, name) != getattr(self, name)]


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What every run of the condition has in common, and where its methods' settings stand."""

    label: str  # what a panel is called
    problem: Problem
    model: Model
    experiment: str = ""  # a name in paper/tables.py; none if there is a table, or all is given
    case: Case | None = None  # the block of its table
    table: tuple[Setting, ...] = ()  # a table of its own
    methods: tuple[str, ...] = ()  # none: all of the table
    seeds: ByScale[int] = USUAL_SEEDS
    given: tuple[Setting, ...] | None = None  # what to run in place of the table and of the order's methods
    is_tuned: bool = False  # what is given depends on whether the order is a search
    first_seed: int = 0
    precision: Precision = "default"  # of its runs, unless the order names another

    def settings(self, order: StudyOptions) -> list[Setting]:
        """Methods and optimizers to run.

        One the table lacks runs at its defaults with the first row's optimizer; in a search, its own grid with all.
        """
        if self.given is not None:
            found = list(self.given)
        else:
            rows = self.rows(order)
            wanted = [*(order.methods or self.methods or [row.method.name for row in rows]), *order.also]
            names, grids = list(dict.fromkeys(wanted)), order.search and self.has_search
            found = [
                setting
                for name in names
                for setting in (grids and searched(name, rows, self.problem)) or settings_of(name, rows)
            ]
        return [changed(setting, order) for setting in found]

    @property
    def has_search(self) -> bool:
        """Whether several settings were tried for it."""
        return self.is_tuned or (self.experiment != "" and EXPERIMENTS[self.experiment].search is not None)

    def rows(self, order: StudyOptions) -> list[Setting]:
        """Its own table, the paper's, or what was searched for that."""
        if self.table:
            return list(self.table)
        choose = search if order.search and self.has_search else best
        return choose(self.experiment, self.case, as_printed=order.as_printed)

    def specs(self, order: StudyOptions) -> list[RunSpec]:
        return list(_specs(self, order))

    def of(self, results: Results, order: StudyOptions) -> Results:
        own = {spec.run_id for spec in self.specs(order)}
        return Results(tuple(run for run in results.runs if run.spec.run_id in own))


@lru_cache(maxsize=64)  # a report asks three times for the same ones, and each takes its time to name its run
def _specs(condition: Condition, order: StudyOptions) -> tuple[RunSpec, ...]:
    asked = condition.seeds.at(order.scale) if order.num_seeds is None else order.num_seeds
    return tuple(
        RunSpec(
            problem=condition.problem,
            model=condition.model,
            method=method,
            optimizer=optimizer,
            seed=seed,
            precision=condition.precision if order.precision == "default" else order.precision,
        )
        for seed in range(condition.first_seed, condition.first_seed + max(asked, order.min_seeds))
        for method, optimizer in condition.settings(order)
    )


def settings_of(name: str, rows: Sequence[Setting]) -> list[Setting]:
    own = [row for row in rows if row.method.name == name]
    return own or [Setting(at_defaults(registry.find(Method, name)), rows[0].optimizer)]


def changed(setting: Setting, order: StudyOptions) -> Setting:
    """The setting with the fields that the order changes, if it names the method."""
    if not order.changes or setting.method.name not in (*order.methods, *order.also):
        return setting
    given: dict[str, list[list[str]]] = {}
    for path, text in order.changes:
        given.setdefault(f"--{path}", []).append(text.split())
    method = {flag: values for flag, values in given.items() if flag.startswith("--method.")}
    optimizer = {flag: values for flag, values in given.items() if flag not in method}
    return Setting(
        read(type(setting.method), method, prefix="--method.", start=setting.method),
        read(type(setting.optimizer), optimizer, prefix="--optimizer.", start=setting.optimizer),
    )


def at_defaults(cls: type[Method]) -> Method:
    """The method as a study runs it that knows no settings for it."""
    if (needed := registry.needed_field(cls)) is not None:
        raise registry.UnknownName(
            f"a study runs the method {cls.name} at its defaults, and {cls.__name__}.{needed} has none; give "
            f"it one, or run it by itself: supple train --method {cls.name} --method.{needed.replace('_', '-')}"
        )
    return in_stages(cls)


class Study(ABC):
    """One figure or table of the paper."""

    name: ClassVar[str]
    title: ClassVar[str]
    question: ClassVar[str]  # what the reader wants to know, in a sentence or two
    section: ClassVar[str] = ""  # of the paper, number and title, that its claims are from unless they name another
    claims: ClassVar["tuple[Claim, ...]"] = ()  # in the paper's order
    scales: ClassVar[tuple[Scale, ...]] = ("smoke", "quick", "paper")
    measured: ClassVar[tuple[str, ...]] = ()  # files beside the runs that its claims rest on

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.claims = tuple(replace(claim, section=claim.section or cls.section) for claim in cls.claims)

    @abstractmethod
    def conditions(self, order: StudyOptions) -> Sequence[Condition]:
        """Under which conditions methods are compared; none if nothing is trained."""

    @abstractmethod
    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        """Figures, tables and claims from what there is."""

    def decided(self, runs: Any, order: StudyOptions) -> tuple[ClaimRow, ...]:
        """What the claims come to by these runs, as their rules take them."""
        return tuple(claim.row(runs, study=self.name, scale=order.scale) for claim in self.claims)

    def reason_to_refuse(self, order: StudyOptions) -> str:
        """Why an option of the order cannot be obeyed or would change nothing here; empty if there is no reason."""
        if order.scale not in self.scales:
            return f"{self.name} has the scales {', '.join(self.scales)}; got {order.scale}."
        conditions = self.conditions(order)
        if not conditions:
            asked = {
                "--methods": order.methods,
                "--only": order.only,
                "--search": order.search,
                "--as-printed": order.as_printed,
                "--seeds": order.num_seeds,
                "--precision": order.precision != "default",
            }
            named = ", ".join(option for option, value in asked.items() if value)
            return f"{self.name} trains nothing, so {named} would change nothing. Leave it out." if named else ""
        if order.search and order.changes:
            return f"--search runs every setting, and --{order.changes[0][0]} sets one. Leave one of them out."
        if order.search and not any(condition.has_search for condition in conditions):
            return f"{self.name} has nothing to search: the paper tried no other settings there. Leave --search out."
        if order.as_printed and not self.has_slips(order):
            return f"{self.name} has no slip of the paper's to run: --as-printed would change nothing. Leave it out."
        return ""

    def has_slips(self, order: StudyOptions) -> bool:
        """Whether --as-printed changes a setting of the whole grid; another part of it may be asked for."""
        whole = replace(order, methods=(), also=(), only="", changes=())
        printed, meant = (
            [condition.settings(asked) for condition in self.conditions(asked)]
            for asked in (replace(whole, as_printed=as_printed) for as_printed in (True, False))
        )
        return printed != meant

    def specs(self, order: StudyOptions) -> list[RunSpec]:
        """The runs that the study consists of, seed after seed: a sweep cut short has something of everything."""
        every = self.conditions(order)
        conditions = [condition for condition in every if order.only.lower() in condition.label.lower()]
        if every and not conditions:
            labels = "; ".join(condition.label for condition in every)
            raise UnknownName(f"no condition of {self.name} has {order.only!r} in its label. Its conditions: {labels}.")
        specs = [spec for condition in conditions for spec in condition.specs(order)]
        return sorted({spec.run_id: spec for spec in specs}.values(), key=lambda spec: spec.seed)
