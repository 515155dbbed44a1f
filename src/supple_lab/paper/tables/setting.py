"""Setting: a method with the optimizer it is trained by, one row of the paper's tables; and rows with a slip."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from supple.methods.base import Method
from supple_lab.optimizer import Optimizer


class Setting(NamedTuple):
    """One row of a table."""

    method: Method
    optimizer: Optimizer


@dataclass(frozen=True, kw_only=True)
class Slip:
    """A row that contradicts its own table or its source: what is printed, and what is run in its place."""

    printed: Setting
    meant: Setting
    reason: str


Case = Optimizer | str  # a block of a table: an optimizer, a network by its model's name, or a game
Row = Setting | Slip
Table = Mapping[Case, tuple[Row, ...]]


def under(optimizer: Optimizer, methods: Iterable[Method]) -> tuple[Setting, ...]:
    """Each method with this optimizer."""
    return tuple(Setting(method, optimizer) for method in methods)


def crossed(methods: Iterable[Method], optimizers: tuple[Optimizer, ...]) -> tuple[Setting, ...]:
    """Each method with each optimizer."""
    return tuple(Setting(method, optimizer) for method in methods for optimizer in optimizers)


def instead_of(optimizer: Optimizer, settings: Iterable[Setting], *, reason: str) -> tuple[Slip, ...]:
    """The settings, for all of which the paper prints this other optimizer."""
    return tuple(Slip(printed=Setting(s.method, optimizer), meant=s, reason=reason) for s in settings)
