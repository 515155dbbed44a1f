"""Fields: whether a value suits the annotation of the field it is for, checked once, when the object is made.

A bool is no number, a whole number suits a field of type float, nan suits none, and inf only those whose metadata has
``"infinite": True``. Nothing is converted: a run's id is made from the value as given, and 1 is written differently
from 1.0.
"""

import math
import reprlib
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

T = TypeVar("T")
Kinds = dict[str, tuple[Any, bool]]

NAMES = {bool: "True or False", int: "a whole number", float: "a number", str: "text", NoneType: "None"}


class Checked:
    """A frozen dataclass in every subclass, whose values are checked before its own rules can fail on them."""

    def __new__(cls, *args: object, **values: object) -> Self:
        if is_dataclass(cls):
            kinds = kinds_of(cls)
            for name in filter(kinds.__contains__, values):  # what is no field is refused by __init__
                kind, infinite = kinds[name]
                checked(values[name], kind, f"{cls.__name__}.{name}", infinite=infinite)
        return super().__new__(cls)


_KNOWN: WeakKeyDictionary[Any, Kinds] = WeakKeyDictionary()  # functools.cache would keep a user's class alive


def kinds_of(cls: Any) -> Kinds:
    """The type of each field of a dataclass, and whether it may be infinite."""
    if cls not in _KNOWN:
        hints = get_type_hints(cls)
        _KNOWN[cls] = {field.name: (hints[field.name], bool(field.metadata.get("infinite"))) for field in fields(cls)}
    return _KNOWN[cls]


def checked(value: T, kind: Any, what: str, *, infinite: bool = False) -> T:
    """The value if it suits the type, or an error that says what was wanted."""
    if not suits(value, kind):
        if get_origin(kind) is Literal:
            raise ValueError(f"{what} is {named(kind)}; got {value!r}.")
        raise TypeError(f"{what} must be {named(kind)}; got {shown(value)}.")
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, float) and (math.isnan(number) or (math.isinf(number) and not infinite)):
            raise ValueError(f"{what} must be {'a' if infinite else 'a finite'} number; got {number}.")
        if isinstance(number, int) and not -(2**63) <= number < 2**63:
            raise ValueError(f"{what} must be a number that 64 bits can hold; got {shown(number)}.")
    return value


def suits(value: object, kind: Any) -> bool:
    """Whether the value is of the type; of a type that says nothing (Any, a type variable) everything is."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return any(type(value) is type(known) and value == known for known in args)
    if origin in (Union, UnionType):
        return any(suits(value, member) for member in args)
    if origin is tuple:
        members = args[:1] * len(value) if isinstance(value, tuple) and args[1:] == (...,) else args
        return isinstance(value, tuple) and len(value) == len(members) and all(map(suits, value, members))
    if kind in (int, float):
        return isinstance(value, (int, kind)) and not isinstance(value, bool)
    expected = origin or kind
    return expected is Any or not isinstance(expected, type) or isinstance(value, expected)


def named(kind: Any) -> str:
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return f"one of {', '.join(map(str, args))}"
    if origin in (Union, UnionType):
        return " or ".join(map(named, args))
    if origin is tuple:
        members = (f"each {named(args[0])}",) if args[1:] == (...,) else map(named, args)
        return f"a tuple ({', '.join(members)})"
    return NAMES.get(kind) or with_article(getattr(kind, "__name__", str(kind)))


def shown(value: object) -> str:
    """The value, cut short, and its type."""
    if value is None or isinstance(value, type):
        return "None" if value is None else f"the class {value.__name__} itself"
    return f"{' '.join(reprlib.repr(value).split())}, {with_article(type(value).__name__)}"


def with_article(name: str) -> str:
    """The name with "a" or "an" before it."""
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
