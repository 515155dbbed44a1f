"""Order: what is asked of a study. It is kept beside the runs, so that the report can be made from the store alone."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

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


@dataclass(frozen=True, kw_only=True)
class Order:
    """Which runs a study consists of."""

    scale: Scale = "quick"
    num_seeds: int | None = None  # none: the study's own number
    methods: tuple[str, ...] = ()  # none: the study's own
    search: bool = False  # every setting the paper searched in place of its best
    as_printed: bool = False  # the paper's slips as they are printed
    allow_partial: bool = False  # an incomplete TinyImageNet may be used
    only: str = ""  # run the conditions alone whose label holds this text
