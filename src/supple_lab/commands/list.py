"""supple list: what there is to choose from, and how the runs of a folder stand."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from supple_lab import registry
from supple_lab.commands.base import DONE, BadUsage, Command, Given
from supple_lab.commands.terminal import print_table
from supple_lab.rl.games import GAMES

KINDS = {
    "methods": "method",
    "metrics": "metric",
    "scenarios": "scenario",
    "datasets": "dataset",
    "models": "model",
    "games": "game",
    "studies": "study",
    "engines": "engine",
    "trackers": "tracker",
}


@dataclass(frozen=True, kw_only=True)
class List(Command):
    """Show methods, metrics, scenarios, datasets, models, games, studies, engines, trackers, or a folder's runs."""

    name = "list"
    what: str = field(default="all", metadata={"place": "KIND"})
    """One of these kinds, or runs, which needs --out."""
    out: Path | None = None
    """Folder of the runs."""
    method: tuple[str, ...] = ()
    """Runs of these methods alone."""
    state: tuple[str, ...] = ()
    """Runs that stand so: waiting, running, interrupted, done, diverged, failed."""

    @classmethod
    def read(cls, given: Given) -> Self:
        [words] = given.get("", [["all"]])
        if given.keys() - {""} or len(words) > 1:
            return super().read(given)
        return cls(what=words[0])  # at once: options are read with torch imported

    def run(self) -> int:
        if self.what == "runs":
            from supple_lab.commands.list_runs import list_runs  # with it torch, which a list of names needs not

            if self.out is None:
                raise BadUsage("`supple list runs` needs the folder of the runs: --out DIR.")
            return list_runs(self.out, methods=self.method, states=self.state)
        if self.what not in (*KINDS, "all"):
            raise registry.UnknownName(registry.no_such("kind of thing", self.what, [*KINDS, "runs"]))
        if asked := [name for name in ("out", "method", "state") if getattr(self, name)]:
            raise BadUsage(f"--{asked[0]} is for the runs of a folder: supple list runs --out DIR; got {self.what}.")
        for heading in KINDS if self.what == "all" else [self.what]:
            titles = dict.fromkeys(GAMES, "Atari") if heading == "games" else {}
            print_table((heading, ""), [*registry.summaries(KINDS[heading]).items(), *titles.items()])
        return DONE
