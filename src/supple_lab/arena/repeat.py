"""Repeat: a few published runs are run again, so that a machine which does not repeat them is known."""

from collections.abc import Sequence

from supple_lab.arena.contest import ArenaRun, Contest, ContestResult
from supple_lab.arena.entries import BASELINE, REFERENCE, Entry
from supple_lab.arena.problems import ArenaProblem
from supple_lab.arena.published import Board
from supple_lab.store.store import Store
from supple_lab.sweep.executor import Executor
from supple_lab.sweep.sweep import execute_all

NUM_PROBLEMS, NUM_SEEDS = 2, 2


def repeat(board: Board, problems: Sequence[ArenaProblem], store: Store, executor: Executor) -> str | None:
    """Run the reference's and the baseline's chosen settings again; say whether they come out as published.

    On the first of the problems that are published; None if none of them is.
    """
    known = {(result.problem, result.entry): result for result in board.results}
    both = (REFERENCE, BASELINE)
    can_repeat = [problem for problem in problems if all((problem.name, name) in known for name in both)]
    wanted = [
        (Contest(problem, Entry(name), board.scale), known[problem.name, name])
        for problem in can_repeat[:NUM_PROBLEMS]
        for name in both
    ]
    if not wanted:
        return None
    specs = [contest.seeds(result.chosen)[seed] for contest, result in wanted for seed in range(NUM_SEEDS)]
    execute_all(specs, executor)
    runs = [
        (result, seed, contest.read(contest.seeds(result.chosen)[seed], store))
        for contest, result in wanted
        for seed in range(NUM_SEEDS)
    ]
    num_equal = sum(run.score == result.seeds[seed].score for result, seed, run in runs)
    num_near = sum(is_near(run, result) for result, seed, run in runs)
    if num_near == len(runs):
        others = "" if num_equal == num_near else ", the others within their spread over seeds"
        return f"This machine repeats the published runs: {num_equal} of {len(runs)} are equal{others}."
    return (
        f"This machine does not repeat the published runs: {len(runs) - num_near} of {len(runs)} are outside their "
        f"spread over seeds. They were made on {board.made_on}; compare what "
        f"is run here with what is taken from there only with care, or run all of it here: --methods all."
    )


def is_near(run: ArenaRun, result: ContestResult) -> bool:
    """Whether the run lies among the published seeds, or as far beyond as they lie apart."""
    scores = [one.later_score for one in result.seeds]
    reach = max(scores) - min(scores)
    return min(scores) - reach <= run.later_score <= max(scores) + reach
