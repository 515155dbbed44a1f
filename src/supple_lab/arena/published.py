"""Published runs: what the arena's runs came to, as one compact file a scale that ships with the package."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from supple_lab.arena.contest import ArenaRun, ContestResult, mean
from supple_lab.arena.problems import Scale
from supple_lab.provenance import gather_provenance

FOLDER = files("supple_lab.arena") / "published"


@dataclass(frozen=True, kw_only=True)
class Board:
    """Results of one scale, and where they were made."""

    scale: Scale
    machine: str
    versions: dict[str, str]
    commit: str
    results: tuple[ContestResult, ...]


def made_here(scale: Scale, results: Iterable[ContestResult], *, machine: str) -> Board:
    made_by = gather_provenance()
    return Board(
        scale=scale, machine=machine, versions=made_by.versions, commit=made_by.commit or "", results=tuple(results)
    )


def published(scale: Scale) -> Board | None:
    """None if there are none of the scale."""
    path = FOLDER / f"{scale}.json"
    return from_json(path.read_text()) if path.is_file() else None


def to_json(board: Board) -> str:
    """A line a contest, so that a diff can be read."""
    head = {"scale": board.scale, "machine": board.machine, "versions": board.versions, "commit": board.commit}
    lines = [json.dumps(packed(result), separators=(",", ":")) for result in board.results]
    return json.dumps(head)[:-1] + ',\n"contests":[\n' + ",\n".join(lines) + "\n]}\n"


def packed(result: ContestResult) -> dict[str, Any]:
    return {
        "problem": result.problem,
        "entry": result.entry,
        "settings": result.settings,
        "chosen": result.chosen,
        "draws": [packed_run(run) for run in result.draws],
        "seeds": [packed_run(run) for run in result.seeds],
    }


def packed_run(run: ArenaRun) -> list[Any]:
    return [run.id, run.state, run.score, run.train, run.seconds]


def from_json(text: str) -> Board:
    content = json.loads(text)
    contests = content.pop("contests")
    return Board(**content, results=tuple(unpacked(one) for one in contests))


def unpacked(content: dict[str, Any]) -> ContestResult:
    runs = {kind: unpacked_runs(content[kind]) for kind in ("draws", "seeds")}
    return ContestResult(**{**content, "settings": tuple(content["settings"]), **runs})


def unpacked_runs(rows: Sequence[list[Any]]) -> tuple[ArenaRun, ...]:
    names = ("id", "state", "score", "train", "seconds")
    return tuple(ArenaRun(**dict(zip(names, [*row[:2], tuple(row[2]), *row[3:]], strict=True))) for row in rows)


def seconds_by_problem(board: Board) -> dict[str, float]:
    """The mean time of a run on each problem."""
    runs = [(result.problem, run.seconds) for result in board.results for run in (*result.draws, *result.seeds)]
    return {problem: mean([s for name, s in runs if name == problem]) for problem in dict(runs)}
