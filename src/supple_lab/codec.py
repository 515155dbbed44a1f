"""Codec: dataclasses as JSON and as command-line options, and back.

Each value is checked by the annotation of its field, and errors name its path, such as "method.relu_prob". Values of
JSON are never converted: 1 read as 1.0 would be another run.
"""

import ast
import inspect
import itertools
import math
import reprlib
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin

from supple.fields import checked, kinds_of, named
from supple_lab import registry
from supple_lab.errors import UserError
from supple_lab.registry import default_of

T = TypeVar("T")
Json = dict[str, Any]
Given = Mapping[str, Sequence[Sequence[str]]]  # the values after each option, for each time that it is given
Aliases = Mapping[str, Mapping[str, Json]]  # by kind: short names, such as the game Pong for the title Pong of atari
LARGEST = 1e36  # of a number: runs compute in float32, which ends at 3e38
LARGEST_FAST = 1e18  # of a number that needs no further look
NONE = "none"  # an absent part or value, as it is typed
COLUMN = 34  # where the help's explanations begin
METAVARS = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}


def encode(value: Any) -> Any:
    """The value as JSON: a part by its name and fields, without those added later that are as they were before."""
    if isinstance(value, tuple):
        return [encode(member) for member in value]
    if not is_dataclass(value) or isinstance(value, type):
        return value
    name = getattr(type(value), "name", None)
    content = {} if name is None else {"kind": name}
    for own, later, absent in layout_of(type(value)).written:
        if not (later and getattr(value, own) == absent):
            content[own] = encode(getattr(value, own))
    return content


def decode(cls: Any, value: Any, *, path: str = "", infinite: bool = False) -> Any:
    """The inverse of encode; TypeError, ValueError or UnknownName if the value is none of the type."""
    if type(value) is cls and (cls is str or cls is bool or (cls in (int, float) and abs(value) <= LARGEST_FAST)):
        return value  # most values; the rest of this function is for the others
    if isinstance(value, dict) and (part := part_of(cls)) is not None:
        return _decode_part(part, value, path)
    if isinstance(value, list) and get_origin(cls) is tuple:
        kinds = get_args(cls)
        kinds = kinds[:1] * len(value) if kinds[1:] == (...,) else kinds
        if len(kinds) == len(value):
            value = tuple(
                decode(kind, one, path=path, infinite=infinite) for kind, one in zip(kinds, value, strict=True)
            )
    elif isinstance(value, str) and Path in (cls, *get_args(cls)):
        value = Path(value)
    elif isinstance(value, float) and LARGEST < abs(value) < math.inf:
        raise ValueError(f"{path} must be a number of at most {LARGEST:g}; got {value:g}.")
    return checked(value, cls, path or "it", infinite=infinite)


def _decode_part(cls: Any, value: Json, path: str) -> Any:
    content = dict(value)
    if registry.kind_of(cls):
        cls = registry.find(cls, checked(content.pop("kind", None), str, f"{path}.kind" if path else "kind"))
    layout, values = layout_of(cls), {}
    for name, part in content.items():
        if name not in layout.kinds:
            raise TypeError(f"{path or cls.__name__}: {registry.no_such('field', name, layout.kinds)}")
        kind, infinite = layout.kinds[name]
        values[name] = decode(kind, part, path=f"{path}.{name}" if path else name, infinite=infinite)
    for name in layout.needed:
        if name not in content:
            raise TypeError(f"{path}.{name} is missing." if path else f"{name} is missing.")
    return cls(**layout.absent | values)


class Layout(NamedTuple):
    """A class's fields, looked up once: reading thousands of specs would spend its time there."""

    kinds: Mapping[str, tuple[Any, bool]]  # the type of each, and whether it may be infinite
    written: tuple[tuple[str, bool, Any], ...]  # name, whether it came later, its value if it is not written
    absent: dict[str, Any]  # values of fields that are not written, if these are not the defaults
    needed: tuple[str, ...]  # those without a default


@cache
def layout_of(cls: Any) -> Layout:
    own = fields(cls)
    return Layout(
        kinds=kinds_of(cls),
        written=tuple(
            (one.name, bool(one.metadata.get("later")), one.metadata.get("absent", one.default)) for one in own
        ),
        absent={one.name: one.metadata["absent"] for one in own if "absent" in one.metadata},
        needed=tuple(one.name for one in own if one.init and default_of(one) is MISSING),
    )


@cache
def part_of(kind: Any) -> Any:
    """The class whose fields a value of the type has (X, or of X | None); None for a plain value."""
    members = [
        member for member in (kind, *get_args(kind)) if isinstance(member, type) and get_origin(kind) is not tuple
    ]
    return next((member for member in members if is_dataclass(member) or registry.kind_of(member)), None)


def from_arguments(cls: Any, given: Given, *, aliases: Aliases = MappingProxyType({})) -> tuple[Json, str]:
    """What the options spell, for decode, and the help: --method aid --method.relu-prob 0.95.

    Each field is an option. A part is chosen by its name, and its fields are options as well.
    """
    form = Form(given, aliases)
    content = form.open_part(cls)
    if "--help" not in given:
        form.fill()
    return content, form.help()


def with_options(part: T, given: Given, *, prefix: str) -> T:
    """The part with the fields that options with the prefix set, such as --method.relu-prob."""
    form = Form(given, MappingProxyType({}))
    content = form.open_part(type(part), prefix, start=part)
    form.fill()
    try:
        changed: T = decode(type(part), content, path=prefix.strip("-."))
    except (TypeError, ValueError) as error:
        raise UserError(str(error)) from error
    return changed


class Option(NamedTuple):
    """One option, and the field that it sets."""

    flag: str
    kind: Any  # of the field; None for the name of a part
    default: Any
    text: str  # what it means
    content: Json
    key: str

    def take(self, values: Sequence[str]) -> None:
        """Set the field; UserError if these cannot be its values."""
        if self.kind is bool:
            if list(values) not in ([], ["true"], ["false"]):
                raise UserError(f"{self.flag} takes true (or nothing) or false; got {reprlib.repr(' '.join(values))}.")
            self.content[self.key] = list(values) != ["false"]
        elif get_origin(self.kind) is tuple:
            self.content[self.key] = [from_text(value, get_args(self.kind)[0], self.flag) for value in values]
        elif len(values) != 1:
            raise UserError(f"{self.flag} takes one value; got {reprlib.repr(' '.join(values))}.")
        else:
            self.content[self.key] = from_text(values[0], self.kind, self.flag)

    def help(self, width: int) -> str:
        default = "required" if self.default is MISSING else f"default: {typed(self.default)}"
        words = f"{self.text} ({default})".strip()
        first, indent = f"  {self.flag}{metavar(self.kind)}", " " * COLUMN
        lines = textwrap.fill(words, width, initial_indent=indent, subsequent_indent=indent)
        return f"{first}\n{lines}" if len(first) >= COLUMN else first + lines[len(first) :]


class Form:
    """The options of a class and of its parts, those that are named or the default ones."""

    def __init__(self, given: Given, aliases: Aliases) -> None:
        self.given, self.aliases = given, aliases
        self.options: dict[str, Option] = {}

    def open_part(
        self, cls: Any, prefix: str = "--", *, start: Any = None, decided: Mapping[str, Any] = MappingProxyType({})
    ) -> Json:
        """The content of a part before anything is filled in: that of `start`, or the defaults."""
        content: Json = dict(decided)
        for own in fields(cls):
            kind, flag = kinds_of(cls)[own.name][0], prefix + own.name.replace("_", "-")
            default = default_of(own) if start is None else getattr(start, own.name)
            if own.name in decided:
                continue
            if default is not MISSING:
                content[own.name] = encode(default)
            if (part := part_of(kind)) is not None and registry.kind_of(part):
                self.choose(part, Option(flag, None, default, "", content, own.name))
            elif part is not None:  # its options stand beside those of the whole
                content[own.name] = self.open_part(part, prefix)
            elif any(registry.kind_of(member) == "method" for member in filter(None, map(part_of, get_args(kind)))):
                self.choose_several(Option(flag, kind, default, texts_of(cls).get(own.name, ""), content, own.name))
            elif not any(map(part_of, get_args(kind))):  # metrics, which commands choose by their names
                self.options[flag] = Option(flag, kind, default, texts_of(cls).get(own.name, ""), content, own.name)
        return content

    def choose(self, base: Any, option: Option) -> None:
        """Add the option that chooses a part, and the options of the one that is chosen."""
        kind, default, flag = registry.kind_of(base), option.default, option.flag
        short, none = self.aliases.get(kind, {}), [NONE] if default is None else []
        names = [*short, *registry.summaries(kind), *none]
        default_name = default if default is MISSING else getattr(default, "name", NONE)
        self.options[flag] = option._replace(default=default_name, text=f"One of {', '.join(names)}.")
        given = [" ".join(values) for values in self.given.get(flag, ())]
        if len(given) > 1:
            raise UserError(
                f"{flag} is given {len(given)} times ({', '.join(given)}), but a run has one {kind}"
                + (
                    f". Chain them: {flag} chain {flag}.methods {' '.join(given)}."
                    if kind == "method"
                    else f": {kind}s are complete in themselves and do not combine. Start a run for each."
                )
            )
        name = given[0] if given else default_name
        if name is MISSING or name in none:
            return
        if name not in names:
            raise registry.unknown(kind, name, names)
        decided = short.get(name, {"kind": name})
        cls: Any = registry.find(base, decided["kind"])
        start = default if type(default) is cls else None
        option.content[option.key] = self.open_part(cls, f"{flag}.", start=start, decided=decided)

    def choose_several(self, option: Option) -> None:
        """Add the option that chooses the methods of a chain, and their options beside it: --method.redo.threshold."""
        base, names = get_args(option.kind)[0], [name for values in self.given.get(option.flag, ()) for name in values]
        if len(set(names)) < len(names):
            raise UserError(f"{option.flag} takes each method once; got {' '.join(names)}.")
        prefix = option.flag.rpartition(".")[0]
        if names:
            option.content[option.key] = [
                self.open_part(registry.find(base, name), f"{prefix}.{name.replace('_', '-')}.", decided={"kind": name})
                for name in names
            ]
        self.options[option.flag] = option._replace(kind=tuple[str, ...], content={})  # which is taken here

    def fill(self) -> None:
        """Take what was given; UserError if an option is unknown, given twice, or lacking."""
        for flag, times in self.given.items():
            if flag not in self.options:
                raise registry.UnknownName(registry.no_such("option", flag, self.options))
            if len(times) > 1:
                raise UserError(f"{flag} is given {len(times)} times; give it once.")
            if self.options[flag].kind is not None:
                self.options[flag].take(times[0])
        for option in self.options.values():
            if option.default is MISSING and option.key not in option.content:
                raise UserError(f"{option.flag} must be given. {option.text}".strip())

    def help(self) -> str:
        """Each option with its default and what it means; those of a part in a group of their own."""
        width = max(shutil.get_terminal_size().columns, 2 * COLUMN)
        groups: dict[str, list[Option]] = {}
        for flag, option in self.options.items():
            groups.setdefault(flag.rpartition(".")[0], []).append(option)
        return "\n\n".join(
            "\n".join([f"{head or 'options'}:", *(option.help(width) for option in sorted(group, key=is_plain))])
            for head, group in sorted(groups.items(), key=lambda item: item[0] != "")
        )


def is_plain(option: Option) -> bool:
    """Whether it chooses no part: those that do stand first."""
    return option.kind is not None


def from_text(text: str, kind: Any, flag: str) -> Any:
    """A typed value as JSON has it; its bounds are checked when it is decoded."""
    members = get_args(kind) if NoneType in get_args(kind) else (kind,)
    if NoneType in members and text.lower() == NONE:
        return None
    for member in members:
        if member in (str, Path) or get_origin(member) is Literal:
            return text
        if member in (int, float):
            with suppress(ValueError):
                return member(text)
    raise UserError(f"{flag} must be {named(kind)}; got {reprlib.repr(text)}.")


def typed(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(typed, value)) or NONE
    if value is None:
        return NONE
    return str(value).lower() if isinstance(value, bool) else str(value)


def metavar(kind: Any) -> str:
    if kind is None or kind is bool:
        return " [true|false]" if kind else " NAME"
    if get_origin(kind) is Literal:
        return f" {{{','.join(map(str, get_args(kind)))}}}"
    if get_origin(kind) is tuple:
        return f"{metavar(get_args(kind)[0])} ..."
    names = [METAVARS.get(member, NONE) for member in get_args(kind) or (kind,)]
    return f" {'|'.join(names)}"


@cache
def texts_of(cls: Any) -> dict[str, str]:
    """What the source says of each field: the docstring below it, or the comment beside it."""
    found: dict[str, str] = {}
    for one in filter(is_dataclass, reversed(cls.__mro__)):
        with suppress(OSError, TypeError):  # its source may be nowhere
            source = textwrap.dedent(inspect.getsource(one))  # type: ignore[arg-type]
            body = ast.parse(source).body[0].body  # type: ignore[attr-defined]
            for statement, following in itertools.pairwise([*body, None]):
                match statement, following:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                        found[name] = " ".join(text.split())
                    case ast.AnnAssign(target=ast.Name(id=name)), _:
                        last = source.splitlines()[int(statement.end_lineno or 0) - 1]
                        comment = last[statement.end_col_offset :].partition("#")[2].strip()
                        found[name] = comment or found.get(name, "")
    return found
