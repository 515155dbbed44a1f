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

from supple.fields import kinds_of, named
from supple_lab import registry
from supple_lab.codec import Json, decode, encode, members_of, part_of, several_of
from supple_lab.errors import UserError
from supple_lab.registry import NONE, default_of

T = TypeVar("T")
Given = Mapping[str, Sequence[Sequence[str]]]  # the values after each option, for each time that it is given
Aliases = Mapping[str, Mapping[str, Json]]  # by kind: short names, such as the game Pong for the title Pong of atari
COLUMN = 34  # where the help's explanations begin
METAVARS = {None: "NAME", bool: "[true|false]", int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH", NoneType: NONE}
WORDS: Mapping[Any, Sequence[Any]] = {bool: (True, False), NoneType: (None,)}  # values that are typed as words


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
        members = members_of(self.kind)
        if bool in members and not (values and values[0].lower() in words_of(self.kind)):
            self.content[self.key] = True
            return values
        kinds = several_of(self.kind)
        if kinds[1:] == (...,):
            if [value.lower() for value in values] == [NONE]:
                self.content[self.key] = None if NoneType in members else []
                return ()
            kinds = kinds[:1] * max(len(values), 1)
        num_taken = max(len(kinds), 1)
        if len(values) < num_taken:
            raise UserError(self.refusal(values))
        read = [self.read(value, kind) for value, kind in zip(values, kinds or (self.kind,), strict=False)]
        self.content[self.key] = read if kinds else read[0]
        return values[num_taken:]

    def refusal(self, values: Sequence[str]) -> str:
        """Why these values, or none, are not what the option takes."""
        kinds = several_of(self.kind)
        if kinds[1:] == (...,):
            return f"{self.flag} takes one value or more; got none. Leave it out for its default."
        takes = (
            "true (or nothing) or false"
            if bool in members_of(self.kind)
            else f"{len(kinds)} values"
            if kinds
            else "one value"
        )
        return f"{self.flag} takes {takes}; got {reprlib.repr(' '.join(values)) if values else 'none'}."

    def read(self, text: str, kind: Any) -> Any:
        """A typed value as JSON has it."""
        words, members = words_of(kind), members_of(kind)
        for word in (text, text.lower()):
            if word in words:
                return words[word]
        for member in (int, float):
            if member in members:
                with suppress(ValueError):
                    number = member(text)
                    break
        else:
            if str in members or Path in members:
                return text
            raise UserError(f"{self.flag} must be {named(kind)}; got {reprlib.repr(text)}.")
        try:
            return decode(kind, number, path=self.flag, infinite=self.infinite)
        except ValueError as error:
            raise UserError(str(error)) from error

    def help(self, width: int) -> str:
        default = "required" if self.default is MISSING else f"default: {typed(self.default)}"
        says_default = "Default:" in self.text and self.default in (None, ())
        words = self.text if says_default else f"{self.text} ({default})".strip()
        first = f"  {self.flag} {metavar(self.kind) if self.flag.startswith('-') else ''}".rstrip()
        indent = " " * COLUMN
        lines = textwrap.fill(words, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
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
        if name is MISSING or name.lower() in none:
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
        if names and names != [NONE]:
            option.content[option.key] = [
                self.open_part(registry.find(base, name), f"{prefix}.{name.replace('_', '-')}.", decided={"kind": name})
                for name in names
            ]
        self.options[option.flag] = option._replace(kind=tuple[str, ...], content={})  # which is taken here

    def fill(self) -> None:
        """Take what was given; UserError if an option is unknown, given twice, or lacking."""
        words: list[tuple[str, str]] = []  # that no option takes, each with what the one before it says
        for flag, times in self.given.items():
            if not flag:
                words += [(word, "") for word in times[0]]
                continue
            if flag not in self.options:
                raise registry.UnknownName(registry.no_such("option", flag, self.options))
            if len(times) > 1:
                raise UserError(f"{flag} is given {len(times)} times; give it once.")
            if (option := self.options[flag]).kind is not None:
                words += [(word, option.refusal(times[0])) for word in option.take(times[0])]
        for place, (word, _) in zip(self.places, words, strict=False):
            place.take([word])
        if too_many := words[len(self.places) :]:
            places = " ".join(place.flag for place in self.places) or "options alone, such as --out FOLDER"
            refusals = filter(None, (refusal for _, refusal in [*too_many, *words]))
            unknown = f"{reprlib.repr(too_many[0][0])} is one word too many: the command takes {places}."
            raise UserError(next(refusals, unknown))
        for option in (*self.places, *self.options.values()):
            if option.default is MISSING and option.key not in option.content:
                raise UserError(f"{option.flag} must be given. {option.text}".strip())

    def help(self) -> str:
        """Each option with its default and what it means; those of a part in a group of their own."""
        groups: dict[str, list[Option]] = {"arguments": self.places} if self.places else {}
        for flag, option in sorted(self.options.items(), key=lambda item: "." in item[0]):
            groups.setdefault(flag.rpartition(".")[0] or "options", []).append(option)
        return "\n\n".join(
            "\n".join([f"{head}:", *(option.help(width()) for option in sorted(group, key=is_plain))])
            for head, group in groups.items()
        )


def width() -> int:
    """How wide the help is."""
    return max(shutil.get_terminal_size().columns, COLUMN + 20)


def wrapped(text: str) -> str:
    """Paragraphs as wide as the help."""
    return "\n\n".join(
        textwrap.fill(paragraph, width(), break_on_hyphens=False) for paragraph in text.strip().split("\n\n")
    )


def is_plain(option: Option) -> bool:
    """Whether it chooses no part: those that do stand first."""
    return option.kind is not None


def words_of(kind: Any) -> dict[str, Any]:
    """The values that are typed as words: those of a Literal, true, false and none."""
    found: dict[str, Any] = {}
    for member in members_of(kind):
        values = get_args(member) if get_origin(member) is Literal else WORDS.get(member, ())
        found |= {typed(value): value for value in values}
    return found


def typed(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(typed, value)) or NONE
    if value is None:
        return NONE
    return str(value).lower() if isinstance(value, bool) else str(value) or '""'


def metavar(kind: Any) -> str:
    members = members_of(kind)
    if len(members) > 1:
        return "|".join(map(metavar, members))
    if get_origin(kind) is Literal:
        return f"{{{','.join(map(str, get_args(kind)))}}}"
    if get_origin(kind) is tuple:
        return " ".join("..." if member is ... else metavar(member) for member in get_args(kind))
    return METAVARS.get(kind, "VALUE")


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
