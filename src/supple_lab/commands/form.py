"""Form: a dataclass as command-line options, whose parts are chosen by name: --method aid --method.relu-prob 0.95.

A form of a class is a subclass of it, for the parser alone: each part has a field for its name and is itself a form of
the class of that name, and nothing is checked. What the parser filled in is then given to the classes themselves.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import field, make_dataclass
from typing import Annotated, Any, get_args, get_type_hints

import tyro

from supple.methods.base import Method
from supple_lab import lookup
from supple_lab.commands.base import BadUsage
from supple_lab.data.base import Dataset
from supple_lab.models.base import Model
from supple_lab.runs.optimizer import Optimizer
from supple_lab.scenarios.base import Scenario

KINDS = (Scenario, Dataset, Model, Method, Optimizer)
NONE = "none"  # the name of a part that is absent
OF_THE_SOURCE = ("__doc__", "__qualname__", "__firstlineno__")  # where the parser reads what a field's comment says


def form_of(cls: type, arguments: Sequence[str], *, prefix: str = "--") -> type:
    """The form of a class that has the parts which the arguments name, or its default ones."""
    names: list[tuple[str, Any, Any]] = []
    parts: list[tuple[str, Any, Any]] = []
    for part, kind in parts_of(cls):
        option = prefix + part.name.replace("_", "-")
        name = chosen(option, arguments, kind) or default_name(part)
        names.append((f"{part.name}_name", name_option(part, kind), field(default=name)))
        if name == NONE and default_name(part) == NONE:
            parts.append((part.name, Annotated[None, tyro.conf.Suppress], field(default=None)))
        else:
            parts.append((part.name, form_of(lookup.find(kind, name), arguments, prefix=f"{option}."), field()))
    # Fields of the last base come first: the names stand at the head of the help.
    first = make_dataclass("Names", names, frozen=True, kw_only=True)
    own = {"__post_init__": lambda self: None} | {key: vars(cls)[key] for key in OF_THE_SOURCE if key in vars(cls)}
    form = make_dataclass(cls.__name__, parts, bases=(cls, first), namespace=own, frozen=True, kw_only=True)
    form.__module__ = cls.__module__
    return form


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
    return [(own, kind) for own, kind in found if kind in KINDS]


def default_name(part: dataclasses.Field[Any]) -> str:
    """The name of what stands there if none is given."""
    default = part.default if part.default_factory is dataclasses.MISSING else part.default_factory()
    return NONE if default is None else default.name


def name_option(part: dataclasses.Field[Any], kind: type) -> Any:
    """The option that chooses a part."""
    known = [*lookup.known(kind), *([NONE] if default_name(part) == NONE else [])]
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
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        name, equals, value = argument.partition("=")
        if name.replace("_", "-") == option:
            yield value if equals else following
