"""Options: dataclasses from a command line, and its help.

Each field is an option: --seed 3. A part is chosen by its name, and its fields are options as well: --method aid
--method.relu-prob 0.95. A field whose metadata has "place" is given by its place on the line; if that is None, not at
all.
"""

import ast
import inspect
import itertools
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
from supple_lab.codec import Json, decode, encode, part_of
from supple_lab.errors import UserError
from supple_lab.registry import default_of

T = TypeVar("T")
Given = Mapping[str, Sequence[Sequence[str]]]  # the values after each option, for each time that it is given
Aliases = Mapping[str, Mapping[str, Json]]  # by kind: short names, such as the game Pong for the title Pong of atari
NONE = "none"  # an absent part or value, as it is typed
COLUMN = 34  # where the help's explanations begin
METAVARS = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}


def read(
    cls: type[T],
    given: Given,
    *,
    aliases: Aliases = MappingProxyType({}),
    prefix: str = "--",
    start: T | None = None,
) -> T:
    """What the options spell; fields that none of them sets are as in `start`, or at their defaults."""
    form = Form(cls, given, aliases, prefix=prefix, start=start)
    form.fill()
    try:
        whole: T = decode(cls, form.content, path=prefix.strip("-."))
    except (TypeError, ValueError) as error:
        raise UserError(str(error)) from error
    return whole


class Option(NamedTuple):
    """One option, and the field that it sets."""

    flag: str  # or, of a field that is given by its place, what stands there in the help
    kind: Any  # of the field; None for the name of a part
    default: Any
    text: str  # what it means
    content: Json
    key: str
    infinite: bool = False  # whether a number may be

    def take(self, values: Sequence[str]) -> Sequence[str]:
        """Set the field; return the values that it has no use for. UserError if these cannot be its values."""
        if get_origin(self.kind) is tuple:
            if not values:
                raise UserError(f"{self.flag} takes one value or more; got none. Leave it out for its default.")
            kind = get_args(self.kind)[0]
            self.content[self.key] = [] if list(values) == [NONE] else [self.read(value, kind) for value in values]
            return ()
        if self.kind is bool and values[:1] not in (["true"], ["false"]):
            self.content[self.key] = True
            return values
        if not values:
            raise UserError(f"{self.flag} takes one value; got none.")
        self.content[self.key] = values[0] == "true" if self.kind is bool else self.read(values[0], self.kind)
        return values[1:]

    def read(self, text: str, kind: Any) -> Any:
        """A typed value as JSON has it."""
        members = get_args(kind) if NoneType in get_args(kind) else (kind,)
        if NoneType in members and text.lower() == NONE:
            return None
        if any(member in (str, Path) or text in get_args(member) for member in members):
            return text
        for member in (int, float):
            if member in members:
                with suppress(ValueError):
                    number = member(text)
                    break
        else:
            raise UserError(f"{self.flag} must be {named(kind)}; got {reprlib.repr(text)}.")
        try:
            return checked(number, kind, self.flag, infinite=self.infinite)
        except ValueError as error:
            raise UserError(str(error)) from error

    def help(self, width: int) -> str:
        default = "required" if self.default is MISSING else f"default: {typed(self.default)}"
        words = self.text if "Default:" in self.text else f"{self.text} ({default})".strip()
        first, indent = f"  {self.flag}{metavar(self.kind) if self.flag.startswith('-') else ''}", " " * COLUMN
        lines = textwrap.fill(words, width, initial_indent=indent, subsequent_indent=indent)
        return f"{first}\n{lines}" if len(first) >= COLUMN else first + lines[len(first) :]


class Form:
    """The options of a class and of its parts, those that are named or the default ones."""

    def __init__(
        self,
        cls: Any,
        given: Given,
        aliases: Aliases = MappingProxyType({}),
        *,
        prefix: str = "--",
        start: Any = None,
    ) -> None:
        self.given, self.aliases = given, aliases
        self.options: dict[str, Option] = {}
        self.places: list[Option] = []
        self.content = self.open_part(cls, prefix, start=start)

    def open_part(
        self, cls: Any, prefix: str = "--", *, start: Any = None, decided: Mapping[str, Any] = MappingProxyType({})
    ) -> Json:
        """The content of a part before anything is filled in: that of `start`, or the defaults."""
        content: Json = dict(decided)
        for own in fields(cls):
            if own.name in decided:
                continue
            (kind, infinite), flag = kinds_of(cls)[own.name], prefix + own.name.replace("_", "-")
            default = default_of(own) if start is None else getattr(start, own.name)
            option = Option(flag, kind, default, texts_of(cls).get(own.name, ""), content, own.name, infinite)
            if default is not MISSING:
                content[own.name] = encode(default)
            if "place" in own.metadata:
                self.places += [option._replace(flag=own.metadata["place"])] if own.metadata["place"] else []
            elif (part := part_of(kind)) is not None and registry.kind_of(part):
                self.choose(part, option._replace(kind=None))
            elif part is not None:  # its options stand beside those of the whole
                content[own.name] = self.open_part(part, prefix)
            elif any(registry.kind_of(member) == "method" for member in filter(None, map(part_of, get_args(kind)))):
                self.choose_several(option)
            elif not any(map(part_of, get_args(kind))):  # metrics, which commands choose by their names
                self.options[flag] = option
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
        words: list[str] = []
        for flag, times in self.given.items():
            if not flag:
                words += times[0]
                continue
            if flag not in self.options:
                raise registry.UnknownName(registry.no_such("option", flag, self.options))
            if len(times) > 1:
                raise UserError(f"{flag} is given {len(times)} times; give it once.")
            if (option := self.options[flag]).kind is None:
                continue
            rest = option.take(times[0])
            if rest and not self.places:
                takes = "true (or nothing) or false" if option.kind is bool else "one value"
                raise UserError(f"{flag} takes {takes}; got {reprlib.repr(' '.join(times[0]))}.")
            words += rest
        for place in self.places[: len(words)]:
            place.take([words.pop(0)])
        if words:
            places = " ".join(place.flag for place in self.places) or "options alone, such as --out FOLDER"
            raise UserError(f"{reprlib.repr(words[0])} is one word too many: the command takes {places}.")
        for option in (*self.places, *self.options.values()):
            if option.default is MISSING and option.key not in option.content:
                raise UserError(f"{option.flag} must be given. {option.text}".strip())

    def help(self) -> str:
        """Each option with its default and what it means; those of a part in a group of their own."""
        width = max(shutil.get_terminal_size().columns, 2 * COLUMN)
        groups: dict[str, list[Option]] = {"arguments": self.places} if self.places else {}
        for flag, option in sorted(self.options.items(), key=lambda item: "." in item[0]):
            groups.setdefault(flag.rpartition(".")[0] or "options", []).append(option)
        return "\n\n".join(
            "\n".join([f"{head}:", *(option.help(width) for option in sorted(group, key=is_plain))])
            for head, group in groups.items()
        )


def is_plain(option: Option) -> bool:
    """Whether it chooses no part: those that do stand first."""
    return option.kind is not None


def typed(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(typed, value)) or NONE
    if value is None:
        return NONE
    return str(value).lower() if isinstance(value, bool) else str(value) or '""'


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
