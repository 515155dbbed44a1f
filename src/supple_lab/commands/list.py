"""supple list: what there is to choose from, and how the runs of a folder stand."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from supple.methods.base import Method
from supple.metrics.base import Metric
from supple_lab import lookup
from supple_lab.commands.base import DONE, BadUsage, Command
from supple_lab.commands.screen import print_table
from supple_lab.data.base import Dataset
from supple_lab.models.base import Model
from supple_lab.runs.store import Store
from supple_lab.scenarios.base import Scenario
from supple_lab.studies.base import Study
from supple_lab.sweep.executor import Executor
from supple_lab.sweep.view import look_at

KINDS: dict[str, type] = {
    "methods": Method,
    "metrics": Metric,
    "scenarios": Scenario,
    "datasets": Dataset,
    "models": Model,
    "studies": Study,
    "engines": Executor,
}


@dataclass(frozen=True, kw_only=True)
class List(Command):
    """Show what there is: methods, metrics, scenarios, datasets, models, studies, engines; or the runs of a folder."""

    what: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="KIND")] = "all"
    """One of these kinds, or runs, which needs --out."""
    out: Path | None = None
    """Folder of the runs."""

    def obey(self) -> int:
        if self.what == "runs":
            return list_runs(self.out)
        if self.what not in (*KINDS, "all"):
            raise lookup.UnknownName(lookup.no_such("kind of thing", self.what, [*KINDS, "runs"]))
        for kind in KINDS if self.what == "all" else [self.what]:
            classes: dict[str, type] = lookup.known(KINDS[kind])
            print_table((kind, ""), [(name, first_line(cls)) for name, cls in classes.items()])
        return DONE


def list_runs(out: Path | None) -> int:
    """Print every run of a folder with its state and progress."""
    if out is None:
        raise BadUsage("`supple list runs` needs the folder of the runs: --out DIR.")
    store = Store.open(out)
    rows = []
    for folder in store.folders():
        glance = look_at(store, folder.spec())
        accuracy = "" if glance.accuracy is None else f"{glance.accuracy:.3f}"
        rows.append((folder.path.name, glance.title, folder.state(), f"{glance.progress:.0%}", accuracy))
    print_table(("run", "", "state", "progress", "online accuracy"), rows)
    return DONE


def first_line(cls: type) -> str:
    """What a class says of itself."""
    return (cls.__doc__ or "").splitlines()[0]
