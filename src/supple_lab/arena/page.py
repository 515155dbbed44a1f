"""The page of the arena: one file with the standings, each cell leading to the runs behind it."""

import math
from collections.abc import Collection, Sequence
from typing import Any

from supple_lab.arena.contest import BUDGETS
from supple_lab.arena.entries import REFERENCE
from supple_lab.arena.problems import PROBLEMS
from supple_lab.arena.published import Board, step_costs
from supple_lab.arena.score import RULE, Cell, Standing
from supple_lab.report.page import template
from supple_lab.report.study_json import strict

REACH = 1.5  # of the relative scores that are drawn; more is drawn at the edge


def page(
    order: Sequence[Standing], board: Board, *, run_here: Collection[str], taken: Board | None, remarks: Sequence[str]
) -> str:
    """run_here: entries whose runs are of the board itself; others were taken from the published board."""
    problems = [problem for problem in PROBLEMS if any(problem.name in one.cells for one in order)]
    rows = [row_of(one, [problem.name for problem in problems], is_new=one.entry in run_here) for one in order]
    runs = {f"{one.entry}/{name}": runs_of(cell) for one in order for name, cell in one.cells.items()}
    return template("arena.html").render(
        board=board,
        budget=BUDGETS[board.scale],
        problems=problems,
        chances=[problem.chance(board.scale) for problem in problems],
        networks=[problem.network(board.scale) for problem in problems],
        rows=rows,
        runs=strict(runs),
        reference=REFERENCE,
        rule=RULE,
        taken=taken,
        run_here=sorted(run_here),
        remarks=remarks,
        num_runs=sum(len(run["draws"]) + len(run["seeds"]) for run in runs.values()),
    )


def row_of(standing: Standing, problems: Sequence[str], *, is_new: bool) -> dict[str, Any]:
    costs = {network: of[standing.entry] for network, of in step_costs().items() if standing.entry in of}
    cells = [cell_of(standing.cells.get(name)) for name in problems]
    return {"standing": standing, "costs": costs, "cells": cells, "is_new": is_new}


def cell_of(cell: Cell | None) -> dict[str, Any] | None:
    """Number, interval and where both are drawn, in percent."""
    if cell is None or math.isnan(cell.relative):
        return None
    low, high = cell.interval or (cell.relative, cell.relative)
    return {
        "cell": cell,
        "interval": cell.interval,
        "place": percent(cell.relative),
        "from": percent(low),
        "width": percent(high) - percent(low),
    }


def percent(value: float) -> float:
    return round(100 * min(max(value, 0.0), REACH) / REACH, 1)


def runs_of(cell: Cell) -> dict[str, Any]:
    result = cell.result
    draws = [
        [run.id, run.state, None if run.state != "done" else round(run.tuning_score, 4), setting]
        for run, setting in zip(result.draws, result.settings, strict=True)
    ]
    seeds = [[run.id, run.state, list(run.score), run.seconds] for run in result.seeds]
    return {"summary": summary_of(cell), "chosen": result.chosen, "draws": draws, "seeds": seeds}


def summary_of(cell: Cell) -> str:
    low, high = cell.interval or (cell.relative, cell.relative)
    parts = [f"{cell.relative:.2f} [{low:.2f}, {high:.2f}] of the reference", f"the score itself {cell.mean:.3f}"]
    if cell.train is not None:
        parts.append(f"on the training images {cell.train:.2f} of the reference's")
    return "; ".join([*parts, f"places {cell.places[0]} to {cell.places[1]}"]) + "."
