"""How a forward is called: which arguments are plain values a trace may fix, and which are holes it must leave open."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Values a forward may branch on. A trace is made for each combination of them, so none is ever fixed in silence.
PLAIN = (type(None), bool, int, float, str)
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Hole:
    """Stands for an argument that is not plain: a tensor, or something that holds tensors."""


@dataclass(frozen=True)
class Call:
    """One way to call a forward: each argument as given, with holes for what is not plain. Defaults are not listed."""

    positional: tuple[Any, ...] = ()
    named: tuple[tuple[str, Any], ...] = ()

    def matches(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a call with these arguments is this one."""
        if len(args) != len(self.positional) or len(kwargs) != len(self.named):
            return False
        for slot, value in zip(self.positional, args, strict=True):
            if not fits(slot, value):
                return False
        return not self.named or all(name in kwargs and fits(slot, kwargs[name]) for name, slot in self.named)

    def fillings(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """What such a call puts into the holes, in order."""
        filled = [value for value in args if not isinstance(value, PLAIN)]
        return filled + [kwargs[name] for name, slot in self.named if slot is Hole]

    def check(self, forward: Callable[..., Any]) -> None:
        """Raise the TypeError that calling the forward with too few or too many arguments does."""
        inspect.signature(forward).bind(None, *self.positional, **dict(self.named))

    def __str__(self) -> str:
        slots = [spelled(slot) for slot in self.positional] + [f"{n}={spelled(slot)}" for n, slot in self.named]
        return f"({', '.join(slots)})"


def call_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """The way in which these arguments call a forward."""
    return Call(tuple(map(slot_of, args)), tuple((name, slot_of(value)) for name, value in kwargs.items()))


def plainest_call(forward: Callable[..., Any]) -> Call:
    """The call that gives every argument without a default and no other, but at least one if there is any."""
    arguments = arguments_of(forward)
    required = [argument for argument in arguments if not is_optional(argument)]
    named = tuple((argument.name, Hole) for argument in required if argument.kind is argument.KEYWORD_ONLY)
    if not required and arguments and arguments[0].kind <= inspect.Parameter.VAR_POSITIONAL:
        return Call((Hole,))
    return Call((Hole,) * (len(required) - len(named)), named)


def has_optional_arguments(forward: Callable[..., Any]) -> bool:
    """Whether the forward may be called in more than one way."""
    return any(map(is_optional, arguments_of(forward)))


def arguments_of(forward: Callable[..., Any]) -> list[inspect.Parameter]:
    """What the forward takes besides self."""
    return list(inspect.signature(forward).parameters.values())[1:]


def is_optional(argument: inspect.Parameter) -> bool:
    """Whether a call may leave the argument out."""
    return argument.default is not argument.empty or argument.kind in VARIADIC


def is_plain(value: Any) -> bool:
    """Whether it is a plain value, or a list, tuple, dict or set of them."""
    if type(value) is dict:
        return all(map(is_plain, value.values()))
    return isinstance(value, PLAIN) or (type(value) in (list, tuple, set) and all(map(is_plain, value)))


def slot_of(value: Any) -> Any:
    """The value itself if it is plain, else a hole."""
    return value if isinstance(value, PLAIN) else Hole


def fits(slot: Any, value: Any) -> bool:
    """Whether the value is what the slot stands for; True and 1 are not the same."""
    if slot is Hole:
        return not isinstance(value, PLAIN)
    return type(slot) is type(value) and slot == value


def spelled(slot: Any) -> str:
    """The slot as it is written in a call."""
    return "..." if slot is Hole else repr(slot)
