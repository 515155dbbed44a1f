"""Order: what is asked of a study. It is kept beside the runs, so that the report can be made from the store alone."""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from supple_lab.runs.precision import Precision

Scale = Literal["smoke", "quick", "paper"]


class Seeds(NamedTuple):
    """How many seeds a condition runs at each scale unless told otherwise."""

    smoke: int = 1
    quick: int = 3
    paper: int = 5  # the paper's own number, but for VGG-16's 3

    def at(self, scale: Scale) -> int:
        """The number at one scale."""
        return getattr(self, scale)


USUAL_SEEDS = Seeds()
MAX_SEEDS = (
    10_000  # two thousand times the paper's; more is a slip of the finger that would be hours in naming its runs
)
KIND = ("scale", "search", "as_printed", "allow_partial", "precision")  # orders that differ here are of other grids


@dataclass(frozen=True, kw_only=True)
class Order:
    """Which runs a study consists of."""

    scale: Scale = "quick"
    num_seeds: int | None = None  # none: the study's own number
    methods: tuple[str, ...] = ()  # none: the study's own
    search: bool = False  # every setting the paper searched in place of its best
    as_printed: bool = False  # the paper's slips as they are printed
    allow_partial: bool = False  # an incomplete TinyImageNet may be used
    precision: Precision = "default"  # of the runs' matrix products
    only: str = ""  # run the conditions alone whose label holds this text
    also: tuple[str, ...] = ()  # methods besides
    min_seeds: int = 0  # at least so many seeds, whatever the study's own number

    def whole(self, before: "Order | None" = None) -> "Order":
        """The grid that a report is about: all of the study, and what this and one of its kind before asked besides."""
        asked = (self,) if before is None else (self, before)
        also = dict.fromkeys(name for order in reversed(asked) for name in (*order.also, *order.methods))
        min_seeds = max(max(order.num_seeds or 0, order.min_seeds) for order in asked)
        return replace(self, methods=(), only="", num_seeds=None, also=tuple(also), min_seeds=min_seeds)

    def same_kind(self, other: "Order") -> bool:
        """Whether both are about the same grid, or parts of it."""
        return not self.differences(other)

    def differences(self, other: "Order") -> list[str]:
        """What makes the other's grid another one."""
        return [f"{name} {getattr(other, name)}" for name in KIND if getattr(other, name) != getattr(self, name)]
