"""Form: a dataclass as command-line options, whose parts are chosen by name: --method aid --method.relu-prob 0.95.

A form of a class is a subclass of it, for the parser alone: each part has a field for its name and is itself a form of
the class of that name, and nothing is checked. What the parser filled in is then given to the classes themselves.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, make_dataclass
from types import MappingProxyType
from typing import Annotated, Any, get_args, get_type_hints

import tyro

from supple.methods.base import Method
from supple.metrics.base import Metric
from supple_lab import registry
from supple_lab.commands.base import BadUsage
from supple_lab.data.base import Dataset
from supple_lab.models.base import Model
from supple_lab.optimizer import Optimizer
from supple_lab.registry import default_of
from supple_lab.rl.atari import Atari
from supple_lab.rl.base import Game
from supple_lab.rl.dqn_problem import DQN
from supple_lab.rl.games import GAMES
from supple_lab.scenarios.base import Scenario

KINDS = (Scenario, Dataset, Model, Method, Optimizer, Game)
SPREAD = (DQN,)  # parts that are not chosen: their options stand beside those of the whole, as --num-iterations
Named = tuple[type, dict[str, Any]]  # a class, and those of its fields that the name decides
SHORT: dict[type, dict[str, Named]] = {Game: {title: (Atari, {"title": title}) for title in GAMES}}
NONE = "none"  # the name of a part that is absent
OF_THE_SOURCE = ("__doc__", "__qualname__", "__firstlineno__")  # where the parser reads what a field's comment says


def form_of(
    cls: type, arguments: Sequence[str], *, prefix: str = "--", decided: Mapping[str, Any] = MappingProxyType({})
) -> type:
    """The form of a class with the parts that the arguments name, or its default ones, and without decided fields."""
    hidden = {**without_option(cls), **decided}
    names: list[tuple[str, Any, Any]] = []
    parts: list[tuple[str, Any, Any]] = [(name, *absent(value)) for name, value in hidden.items()]
    for part, kind in parts_of(cls):
        if kind in SPREAD:
            inner = form_of(kind, arguments, prefix=prefix)
            parts.append((part.name, Annotated[inner, tyro.conf.arg(name="")], field()))
            continue
        option, default = prefix + part.name.replace("_", "-"), default_name(part)
        name = chosen(option, arguments, kind) or default
        names.append((f"{part.name}_name", name_option(part, kind), field(default=name or dataclasses.MISSING)))
        if name is None or name == default == NONE:
            parts.append((part.name, *absent(None)))
        else:
            found, by_name = named(kind, name)
            inner = form_of(found, arguments, prefix=f"{option}.", decided=by_name)
            parts.append((part.name, inner, start_of(part, inner) if name == default else field()))
    # Fields of the last base come first: the names stand at the head of the help.
    first = make_dataclass("Names", names, frozen=True, kw_only=True)
    own = {key: vars(cls)[key] for key in OF_THE_SOURCE if key in vars(cls)}
    own |= {"__new__": unchecked, "__post_init__": lambda self: None}
    form = make_dataclass(cls.__name__, parts, bases=(cls, first), namespace=own, frozen=True, kw_only=True)
    form.__module__ = cls.__module__
    return form


def unchecked(cls: type, **values: Any) -> Any:
    """A new form, whatever it is to hold."""
    return object.__new__(cls)


def filled(form: Any) -> Any:
    """What a form's values describe, made by the class itself."""
    cls: Any = type(form).__bases__[0]
    values = {own.name: getattr(form, own.name) for own in dataclasses.fields(cls)}
    values |= {part.name: filled(values[part.name]) for part, _ in parts_of(cls) if values[part.name] is not None}
    try:
        return cls(**values)
    except ValueError as error:
        raise BadUsage(str(error)) from error


def parts_of(cls: type) -> list[tuple[dataclasses.Field[Any], type]]:
    """The fields of a class that are parts, each with its kind; a part may be absent (Method | None)."""
    hints = get_type_hints(cls)
    found = ((own, kind) for own in dataclasses.fields(cls) for kind in (hints[own.name], *get_args(hints[own.name])))
    return [(own, kind) for own, kind in found if kind in (*KINDS, *SPREAD)]


def absent(value: Any) -> tuple[Any, Any]:
    """The type and the default of a field that is no option."""
    return Annotated[Any, tyro.conf.Suppress], field(default=value)


def named(kind: type, name: str) -> Named:
    """What a name stands for: --game Pong is --game atari --game.title Pong."""
    short = SHORT.get(kind, {})
    if name in short:
        return short[name]
    if short and name not in registry.known(kind):
        raise registry.UnknownName(registry.no_such(kind.__name__.lower(), name, names_of(kind)))
    return registry.find(kind, name), {}


def names_of(kind: type) -> list[str]:
    """All names by which a part of the kind can be chosen."""
    return [*SHORT.get(kind, ()), *registry.known(kind)]


def without_option(cls: type) -> dict[str, Any]:
    """The fields that hold metrics, at their defaults: a command that lets metrics be chosen does so by their names."""
    hints = get_type_hints(cls)
    return {own.name: own.default for own in dataclasses.fields(cls) if Metric in get_args(hints[own.name])}


def default_name(part: dataclasses.Field[Any]) -> str | None:
    """The name of what stands there if none is given; None where one must be."""
    default = default_of(part)
    if default is dataclasses.MISSING:
        return None
    return NONE if default is None else default.name


def start_of(part: dataclasses.Field[Any], form: type) -> Any:
    """The form as it is before anything is filled in: with the part's own default, where it has no parts itself."""
    default = default_of(part)
    if parts_of(type(default)):
        return field()
    return field(default=form(**{own.name: getattr(default, own.name) for own in dataclasses.fields(default)}))


def name_option(part: dataclasses.Field[Any], kind: type) -> Any:
    """The option that chooses a part."""
    known = [*names_of(kind), *([NONE] if default_name(part) == NONE else [])]
    help_text = f"One of {', '.join(known)}."
    return Annotated[str, tyro.conf.arg(name=part.name, metavar="NAME", help=help_text)]


def chosen(option: str, arguments: Sequence[str], kind: type) -> str | None:
    """What the option is given, if it is; twice is an error, for the user meant both."""
    values = list(values_of(option, arguments))
    if len(values) > 1:
        what = kind.__name__.lower()
        raise BadUsage(
            f"{option} is given {len(values)} times ({', '.join(values)}), but a run has one {what}: "
            f"{what}s are complete in themselves and do not combine. Start a run for each."
        )
    return values[0] if values else None


def values_of(option: str, arguments: Sequence[str]) -> Iterator[str]:
    """What follows the option each time, after a space or an equals sign."""
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=False):  # there may be no arguments
        name, equals, value = argument.partition("=")
        if name.replace("_", "-") == option:
            yield value if equals else following
