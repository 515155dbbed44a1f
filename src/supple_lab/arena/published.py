"""Published runs: what the arena's runs came to, as one compact file a scale that ships with the package."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from statistics import fmean
from typing import Any

from supple_lab.arena.contest import ArenaRun, ContestResult
from supple_lab.arena.problems import Scale
from supple_lab.provenance import gather_provenance

FOLDER = files("supple_lab.arena") / "published"
COSTS = FOLDER / "costs.json"


@dataclass(frozen=True, kw_only=True)
class Part:
    """Results that were made together."""

    machine: str
    versions: dict[str, str]
    commit: str
    results: tuple[ContestResult, ...]

    @property
    def head(self) -> dict[str, Any]:
        return {"machine": self.machine, "versions": self.versions, "commit": self.commit}


@dataclass(frozen=True, kw_only=True)
class Board:
    """Results of one scale, each contest once."""

    scale: Scale
    parts: tuple[Part, ...]

    @property
    def results(self) -> list[ContestResult]:
        return [result for part in self.parts for result in part.results]

    @property
    def made_on(self) -> str:
        return " and ".join(dict.fromkeys(f"{part.machine} with torch {part.versions['torch']}" for part in self.parts))


def made_here(scale: Scale, results: Iterable[ContestResult], *, machine: str) -> Board:
    made_by = gather_provenance()
    part = Part(machine=machine, versions=made_by.versions, commit=made_by.commit or "", results=tuple(results))
    return Board(scale=scale, parts=(part,))


def published(scale: Scale) -> Board | None:
    path = FOLDER / f"{scale}.json"
    return from_json(path.read_text()) if path.is_file() else None


@cache
def step_costs() -> dict[str, dict[str, float]]:
    """By network and entry: its training step beside plain ReLU's, measured in turns; not by the times of runs.

    Runs share a machine with others, and the first ones of a process include its imports.
    """
    content: dict[str, dict[str, float]] = json.loads(COSTS.read_text())
    return content


def merged(old: Board, new: Board) -> Board:
    """Both boards, of one scale; a contest that both have is the new one's."""
    parts = {json.dumps(part.head): part for part in old.parts}
    again = {(one.problem, one.entry) for one in new.results}
    for head, part in parts.items():
        kept = tuple(one for one in part.results if (one.problem, one.entry) not in again)
        parts[head] = replace(part, results=kept)
    for part in new.parts:
        before = parts.get(json.dumps(part.head))
        results = (*before.results, *part.results) if before else part.results
        parts[json.dumps(part.head)] = replace(part, results=results)
    return Board(scale=old.scale, parts=tuple(part for part in parts.values() if part.results))


def to_json(board: Board) -> str:
    """A line a contest, so that a diff can be read."""
    parts = []
    for part in board.parts:
        lines = [json.dumps(vars(result), separators=(",", ":")) for result in part.results]
        parts.append(json.dumps(part.head)[:-1] + ',\n"contests":[\n' + ",\n".join(lines) + "\n]}")
    return json.dumps({"scale": board.scale})[:-1] + ', "parts":[\n' + ",\n".join(parts) + "\n]}\n"


def from_json(text: str) -> Board:
    content = json.loads(text)
    parts = []
    for part in content["parts"]:
        contests = part.pop("contests")
        parts.append(Part(**part, results=tuple(unpacked(one) for one in contests)))
    return Board(scale=content["scale"], parts=tuple(parts))


def unpacked(content: dict[str, Any]) -> ContestResult:
    runs = {
        kind: tuple(ArenaRun(name, state, tuple(score), *rest) for name, state, score, *rest in content[kind])
        for kind in ("draws", "seeds")
    }
    return ContestResult(**{**content, "settings": tuple(content["settings"]), **runs})


def seconds_by_problem(board: Board) -> dict[str, float]:
    runs = [(result.problem, run.seconds) for result in board.results for run in (*result.draws, *result.seeds)]
    return {problem: fmean([s for name, s in runs if name == problem]) for problem in dict(runs)}
