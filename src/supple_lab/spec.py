"""Problem: what is learned in a run. Supervised: a scenario over a dataset."""

import dataclasses
import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, ClassVar, TypeGuard, get_args, get_type_hints

from supple.fields import Checked
from supple.methods.base import Method
from supple.metrics.base import Metric
from supple_lab import registry
from supple_lab.data.base import Dataset
from supple_lab.models.base import Model
from supple_lab.optimizer import Optimizer
from supple_lab.precision import Precision
from supple_lab.scenarios.base import Scenario


class Problem(Checked, ABC):
    """A frozen dataclass in every subclass."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def num_records(self) -> int:
        """How many records a run leaves that is done: one a stage."""


@dataclass(frozen=True, kw_only=True)
class Supervised(Problem):
    """Classification, stage after stage; what is measured besides accuracy and loss is part of the problem."""

    name = "supervised"
    scenario: Scenario
    dataset: Dataset
    metrics: tuple[Metric, ...] = field(default=(), metadata={"later": True})
    metrics_every: int = field(default=1, metadata={"later": True})  # stages; the last one is always measured
    subnetworks: int = field(default=0, metadata={"later": True})  # trained on copies at each stage's end (section 3.1)

    def __post_init__(self) -> None:
        if self.metrics_every < 1:
            raise ValueError(f"Supervised.metrics_every counts stages, at least 1; got {self.metrics_every}.")
        if self.subnetworks < 0:
            raise ValueError(f"Supervised.subnetworks is a number of copies, at least 0; got {self.subnetworks}.")

    @property
    def num_records(self) -> int:
        return self.scenario.num_stages


@dataclass(frozen=True, kw_only=True)
class RunSpec(Checked):
    """One training run. The output folder, the engine and the number of workers are not in it and change no number."""

    problem: Problem
    model: Model
    method: Method
    optimizer: Optimizer
    seed: int
    precision: Precision = field(default="default", metadata={"later": True})

    @cached_property
    def run_id(self) -> str:
        """The hash of the canonical JSON, 16 hexadecimal digits: the name of the run's folder."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """The canonical form: sorted keys, no spaces."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    def to_dict(self) -> dict[str, Any]:
        """The spec as plain JSON values."""
        return encode_fields(self)

    @classmethod
    def from_json(cls, text: str) -> "RunSpec":
        """The spec that was written, or a LookupError or TypeError where a name or a field is unknown."""
        return decode(cls, json.loads(text))


def is_seed(value: object) -> TypeGuard[int]:
    """Whether it is an integer that every part, the index included, can hold."""
    return isinstance(value, int) and -(2**63) <= value < 2**63


def encode(value: Any) -> Any:
    """A part of a spec as JSON values; numbers and strings as they are."""
    if isinstance(value, tuple):
        return [encode(part) for part in value]
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    return {"kind": value.name, **encode_fields(value)}  # type: ignore[attr-defined]


def encode_fields(part: Any) -> dict[str, Any]:
    """The fields of a part, but for those added later that are as they were before."""
    values = [(field, getattr(part, field.name)) for field in fields_of(part.__class__)]
    return {
        field.name: encode(value)
        for field, value in values
        if not (field.metadata.get("later") and value == field.metadata.get("absent", field.default))
    }


@cache  # dataclasses.fields makes the tuple anew each time
def fields_of(cls: Any) -> tuple[dataclasses.Field[Any], ...]:
    """A part's fields."""
    return dataclasses.fields(cls)


@cache  # most of the time that thousands of specs took to read
def hints_of(cls: Any) -> dict[str, Any]:
    """The types of a part's fields."""
    return get_type_hints(cls)


def decode(cls: Any, value: Any) -> Any:
    """The inverse of encode, for a field of the given type."""
    if isinstance(value, list):
        member = next(iter(get_args(cls)), object)  # of tuple[X, ...]
        return tuple(decode(member, part) for part in value)
    if not isinstance(value, dict):
        return value
    fields = dict(value)
    if "kind" in fields:
        base = next((part for part in get_args(cls) if part is not type(None)), cls)  # of X | None
        cls = registry.find(base, fields.pop("kind"))
    hints = hints_of(cls)
    absent = {field.name: field.metadata["absent"] for field in fields_of(cls) if "absent" in field.metadata}
    return cls(**absent | {name: decode(hints.get(name, object), part) for name, part in fields.items()})
