"""Codec: dataclasses as JSON, and back.

Each value is checked by the annotation of its field, and errors name its path, such as "method.relu_prob". Values of
JSON are never converted: 1 read as 1.0 would be another run.
"""

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

from supple.fields import checked, kinds_of
from supple_lab import registry
from supple_lab.registry import default_of

Json = dict[str, Any]
LARGEST = 1e36  # of a number: runs compute in float32, which ends at 3e38
LARGEST_FAST = 1e18  # of a number that needs no further look


def encode(value: Any) -> Any:
    """The value as JSON: a part by its name and fields, without those added later that are as they were before."""
    if isinstance(value, tuple):
        return [encode(member) for member in value]
    if not is_dataclass(value) or isinstance(value, type):
        return str(value) if isinstance(value, Path) else value
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
    if isinstance(value, list) and (kinds := several_of(cls)):
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


def members_of(kind: Any) -> tuple[Any, ...]:
    """The types that a value may have."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def several_of(kind: Any) -> tuple[Any, ...]:
    """The types of the members of a tuple, if the value may be one."""
    return next((get_args(member) for member in members_of(kind) if get_origin(member) is tuple), ())


@cache
def part_of(kind: Any) -> Any:
    """The class whose fields a value of the type has (X, or of X | None); None for a plain value."""
    members = [
        member for member in (kind, *get_args(kind)) if isinstance(member, type) and get_origin(kind) is not tuple
    ]
    return next((member for member in members if is_dataclass(member) or registry.kind_of(member)), None)
