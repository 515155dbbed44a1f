"""Plays contests of the arena with a field of the network changed: does a lead rest on the pools, or on the start?

    python tools/arena_changed.py out/changed growing_data pool=average vanilla leaky_relu
    python tools/arena_changed.py out/changed growing_data pool=max aid
    python tools/arena_changed.py out/changed renamed_actions init=torch full_reset vanilla cbp silu
    python tools/arena_changed.py out/changed renamed_actions init=torch full_reset vanilla cbp silu --scale full

A line of JSON a contest, as in docs/results/arena/pools.json. Tuning, seeds and scores are the arena's. Scores are
relative to full_reset with the same change, if it is among the entries, else to the published one, which has none.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from supple_lab import registry
from supple_lab.arena.contest import Contest, ContestResult, play
from supple_lab.arena.entries import REFERENCE, entries_of
from supple_lab.arena.problems import ArenaProblem, Scale
from supple_lab.arena.published import published
from supple_lab.arena.score import BY_NAME, cells_of
from supple_lab.codec import decode, encode
from supple_lab.errors import UserError
from supple_lab.models.base import Model
from supple_lab.store.store import Store
from supple_lab.sweep.executor import Executor, SweepOptions


def main() -> None:
    """Play what the command line names, then print what each contest came to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder of the runs; the same command continues")
    parser.add_argument("problem", choices=BY_NAME)
    parser.add_argument("change", help="a field of the network and its value, such as pool=average")
    parser.add_argument("entries", nargs="+")
    parser.add_argument("--scale", default="quick", choices=("smoke", "quick", "full"))
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    name, value = asked.change.split("=", 1)
    try:
        problem = changed(BY_NAME[asked.problem], asked.scale, name, value)
        contests = [Contest(problem, entry, asked.scale) for entry in entries_of(asked.entries)]
    except (ValueError, TypeError, UserError) as error:
        parser.error(str(error))
    store = Store.create(asked.out)
    play(contests, registry.find(Executor, "process")(store, device="cpu", jobs=asked.jobs, options=SweepOptions()))
    results = [result for contest in contests if (result := contest.result(store)) is not None]
    for line in lines(results, asked.scale, problem, {name: value}):
        print(json.dumps(line))


def changed(problem: ArenaProblem, scale: Scale, name: str, value: str) -> ArenaProblem:
    """The same problem with that value in a field of its network."""
    task, model = problem.tasks[scale]
    return replace(problem, tasks={scale: (task, decode(Model, {**encode(model), name: value}))})


def lines(
    results: list[ContestResult], scale: Scale, problem: ArenaProblem, change: dict[str, str]
) -> list[dict[str, Any]]:
    """What each contest came to, relative to the reference; the reference alone is not worth a line."""
    entered = {result.entry: result for result in results}
    if REFERENCE not in entered and (board := published(scale)) is not None:
        entered |= {one.entry: one for one in board.results if (one.problem, one.entry) == (problem.name, REFERENCE)}
    cells = cells_of(entered, problem.chance(scale))
    return [
        {
            "problem": problem.name,
            "scale": scale,
            "entry": result.entry,
            "changed": change,
            "settings": result.settings[result.chosen],
            "runs": {run.id: round(run.later_score, 5) for run in result.seeds},
            "share": round(cells[result.entry].relative, 4),
            "interval": [round(end, 4) for end in cells[result.entry].interval or ()],
        }
        for result in results
    ]


if __name__ == "__main__":
    main()
