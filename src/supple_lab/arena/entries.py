"""Entries: methods and chains of methods that contend, each tuned alike.

The reference is full_reset, a fresh vanilla network at each stage: scores say how much of what it learns an entry does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from supple.methods.base import Method
from supple.methods.chain import Chain
from supple_lab import registry
from supple_lab.arena.spaces import LEARNING_RATE, NOT_ALONE, NOTHING, NUM_DRAWS, SPACES, Space, draw
from supple_lab.errors import UserError
from supple_lab.optimizer import Adam, Optimizer
from supple_lab.spec import in_stages

REFERENCE, BASELINE = "full_reset", "vanilla"
FIRST = (  # what a reader asks for first, so what is run first
    *(REFERENCE, BASELINE, "aid", "aid_mean", "leaky_relu", "shrink_perturb", "l2_init", "redo", "cbp", "crelu"),
    *("layer_norm", "dropout", "fresh_optimizer"),
)
CHAINS = ("l2_init+redo", "aid+l2_init", "layer_norm+l2", "layer_norm+shrink_perturb")


@dataclass(frozen=True)
class Entry:
    """A method by its name, or several joined by "+", which make a chain in that order."""

    name: str

    @property
    def classes(self) -> list[type[Method]]:
        return [registry.find(Method, name) for name in self.name.split("+")]

    def setting(self, problem: str, index: int, *, number: int = NUM_DRAWS) -> tuple[Method, Optimizer]:
        methods = []
        for cls in self.classes:
            names = {field: (problem, self.name, f"{cls.name}.{field}") for field in space_of(cls)}
            fields = {
                field: draw(within, *names[field], index=index, number=number)
                for field, within in space_of(cls).items()
            }
            try:
                methods.append(in_stages(cls, **fields))
            except (TypeError, ValueError) as error:  # of a plugin's: a field without a value, or a range too wide
                drawn = ", ".join(f"{field}={value!r}" for field, value in fields.items())
                raise UserError(f"the arena drew {cls.__name__}({drawn}), which cannot be: {error}") from error
        rate = draw(LEARNING_RATE, problem, self.name, "learning_rate", index=index, number=number)
        method = methods[0] if len(methods) == 1 else Chain(methods=tuple(methods))
        return method, Adam(learning_rate=rate)


def space_of(cls: type[Method]) -> Space:
    """The registered one; of a method that is not ours, what its class attribute ``space`` holds, if it has one."""
    own: Space = getattr(cls, "space", NOTHING)
    return SPACES.get(cls.name, own)


def every_entry() -> list[Entry]:
    """The first ones, then all methods of the registry, a plugin's included, and the chains."""
    names = [name for name in registry.summaries("method") if name not in NOT_ALONE]
    return [Entry(name) for name in dict.fromkeys([*FIRST, *names, *CHAINS])]


def entries_of(names: Sequence[str]) -> list[Entry]:
    """Those of the names, each once; UserError if one does not exist, cannot contend alone, or goes with no other."""
    for part in (part for name in names for part in name.split("+")):
        registry.check_name("method", part)
        if part in NOT_ALONE:
            raise registry.UnknownName(f"{part} is no entry of the arena: {NOT_ALONE[part]}.")
    entries = [Entry(name) for name in dict.fromkeys(names)]
    for entry in (entry for entry in entries if "+" in entry.name):
        try:
            Chain(methods=tuple(in_stages(cls) for cls in entry.classes))
        except ValueError as error:
            raise UserError(f"{entry.name} is no entry of the arena: {error}") from None
    return entries


def own_methods() -> list[str]:
    """The names of the methods that a plugin brings."""
    return [name for name in registry.summaries("method") if name not in registry.entries("method")]
