"""RunSpec: all that decides a run's numbers, and nothing else. Equal specs are the same run.

A part of a spec (a method, a scenario, ...) is written as its fields and its name under "kind". A field added to a part
later carries ``metadata={"later": True}``: its default is the old behaviour, and at that value it is left out of the
JSON, so that finished runs keep their ids.
"""

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_type_hints

from supple.methods.base import Method
from supple_lab import lookup
from supple_lab.models.base import Model
from supple_lab.runs.optimizer import Optimizer
from supple_lab.runs.problem import Problem


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One training run. The output folder, the engine and the number of workers are not in it and change no number."""

    problem: Problem
    model: Model
    method: Method
    optimizer: Optimizer
    seed: int

    @cached_property
    def run_id(self) -> str:
        """The hash of the canonical JSON, 16 hexadecimal digits: the name of the run's folder."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """The canonical form: sorted keys, no spaces."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    def to_dict(self) -> dict[str, Any]:
        """The spec as plain JSON values."""
        return {field.name: encode(getattr(self, field.name)) for field in dataclasses.fields(self)}

    @classmethod
    def from_json(cls, text: str) -> "RunSpec":
        """The spec that was written, or a LookupError or TypeError where a name or a field is unknown."""
        return decode(cls, json.loads(text))


def encode(value: Any) -> Any:
    """A part of a spec as JSON values; numbers, strings and tuples as they are."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    shown = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if not _silent(field, value)}
    return {"kind": value.name, **{name: encode(part) for name, part in shown.items()}}  # type: ignore[attr-defined]


def decode(cls: type, value: Any) -> Any:
    """The inverse of encode, for a field of the given class."""
    if not isinstance(value, dict):
        return tuple(value) if isinstance(value, list) else value
    fields = dict(value)
    if "kind" in fields:
        cls = lookup.find(cls, fields.pop("kind"))
    hints = get_type_hints(cls)
    return cls(**{name: decode(hints.get(name, object), part) for name, part in fields.items()})


def _silent(field: dataclasses.Field, part: Any) -> bool:
    return bool(field.metadata.get("later")) and getattr(part, field.name) == field.default
