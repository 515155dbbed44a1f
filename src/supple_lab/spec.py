"""RunSpec: one training run, known by the hash of its JSON. Problem: what is learned in it."""

import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from supple.fields import Checked
from supple.methods import Method
from supple.metrics.base import Metric
from supple_lab.codec import decode, encode
from supple_lab.data.base import Dataset
from supple_lab.errors import at_least
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
        at_least(1, self, "metrics_every")
        at_least(0, self, "subnetworks")

    @property
    def num_records(self) -> int:
        return self.scenario.num_stages


PERIODIC = ("cpr", "regrama")  # what acts every 1,000 steps by default


def in_stages(cls: type[Method], **fields: Any) -> Method:
    """The method as studies and the arena run it: between their stages, even if it acts every N steps by default."""
    return cls(**({"every": None} if cls.name in PERIODIC else {}) | fields)


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
        content: dict[str, Any] = encode(self)
        return content

    @classmethod
    def from_json(cls, text: str) -> "RunSpec":
        """The spec that was written; LookupError for an unknown name, TypeError or ValueError for another fault."""
        try:
            spec: RunSpec = decode(cls, json.loads(text))
        except RecursionError:
            raise ValueError("its JSON is nested too deeply for a spec.") from None
        return spec
