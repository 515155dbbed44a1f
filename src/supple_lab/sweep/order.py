"""Order: what a driver asks of processes on other machines, and their answers. Plain values, for they travel."""

from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Any

from supple_lab.runs.journal import Pace
from supple_lab.runs.lease import RunIsBusy
from supple_lab.runs.run_folder import State
from supple_lab.sweep.executor import Executor, RunError
from supple_lab.sweep.terms import Terms


@dataclass(frozen=True, kw_only=True)
class Order:
    """Where the runs are, on what they compute, and on what terms."""

    out: str
    mirror: str | None
    device: str
    jobs: int
    terms: Terms

    @classmethod
    def of(cls, engine: Executor) -> "Order":
        """The order that an engine passes on."""
        store = engine.store
        mirror = store.mirror.url if store.mirror else None
        return cls(
            out=str(store.root.resolve()), mirror=mirror, device=engine.device, jobs=engine.jobs, terms=engine.terms
        )

    @property
    def runs_at_once(self) -> int:
        """That share what one job is given: a GPU, or a core."""
        return self.terms.per_gpu if self.device == "cuda" else 1

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "Order":
        """The order that was written."""
        terms = content["terms"]
        own = {"pace": Pace(**terms["pace"]), "track": tuple(terms["track"]), "slurm": tuple(terms["slurm"])}
        return cls(**{**content, "terms": Terms(**{**terms, **own})})


def settle(future: Future[State], answer: dict[str, Any]) -> None:
    """Hand an answer to whoever waits for the run."""
    if "state" in answer:
        future.set_result(answer["state"])
    elif "busy" in answer:
        future.set_exception(RunIsBusy(answer["busy"]))
    else:
        future.set_exception(RunError(answer["error"]))
