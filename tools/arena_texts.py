"""What the published arena says of AID, as sentences and tables for README and the pages that advise.

tools/publish_arena.py puts them between the marks of the documents.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from textwrap import fill
from typing import Any

import numpy as np

from supple_lab.arena.contest import ContestResult
from supple_lab.arena.entries import FIRST, REFERENCE
from supple_lab.arena.problems import PROBLEMS, Scale
from supple_lab.arena.published import Board
from supple_lab.arena.score import BY_NAME, scores_of
from supple_lab.results.intervals import mean_interval

IN_WORDS = ("none", "one", "two", "three", "four", "five", "six")
SIZES: Mapping[Scale, str] = {"quick": "small", "full": "larger"}
CONTROLS = ("leaky_relu", "aid_mean", "vanilla")  # AID beside these
HIGH_P = 0.98
Results = Mapping[str, Mapping[str, ContestResult]]  # by problem and entry


def by_problem(board: Board) -> Results:
    """In the order of the problems."""
    found: dict[str, dict[str, ContestResult]] = {problem.name: {} for problem in PROBLEMS}
    for result in board.results:
        found[result.problem][result.entry] = result
    return {problem: entered for problem, entered in found.items() if REFERENCE in entered}


def unit_of(entered: Mapping[str, ContestResult], chance: float) -> float:
    """What the reference learns, in the score's own unit."""
    return float(scores_of(entered[REFERENCE], chance).mean()) - chance


def difference(entered: Mapping[str, ContestResult], pair: Sequence[str], chance: float) -> np.ndarray | None:
    """Of two entries by seed, as a share of what the reference learns; None if one of them was not run."""
    if any(name not in entered for name in pair):
        return None
    one, other = (scores_of(entered[name], chance) for name in pair)
    return (one - other) / unit_of(entered, chance)


def differences(board: Board, pair: Sequence[str]) -> dict[str, np.ndarray | None]:
    return {
        problem: difference(entered, pair, BY_NAME[problem].chance(board.scale))
        for problem, entered in by_problem(board).items()
    }


def readme_sentence(boards: Mapping[Scale, Board]) -> str:
    """AID beside a leaky ReLU: on how many problems it is ahead, behind or neither."""
    small, larger = (placed(board) for board in boards.values())
    text = f"All tuned alike, beside a leaky ReLU AID is {small} of what a fresh network learns); {larger})."
    return fill(text, width=145, initial_indent=" " * 52).lstrip()  # behind the link


def placed(board: Board) -> str:
    known = [by_seed for by_seed in differences(board, ("aid", "leaky_relu")).values() if by_seed is not None]
    ends, means = [mean_interval(one) or (0.0, 0.0) for one in known], [float(one.mean()) for one in known]
    ahead, behind = sum(low > 0.0 for low, _ in ends), sum(high < 0.0 for _, high in ends)
    where = f"ahead on {IN_WORDS[ahead]} of {IN_WORDS[len(known)]} {SIZES[board.scale]} problems"
    return f"{where}, behind on {IN_WORDS[behind]} ({signed(min(means))} to {signed(max(means))}"


def signed(value: float) -> str:
    """To two digits behind the point, or three if the number is small."""
    return f"{value:+.{2 if abs(value) >= 0.0095 else 3}f}".replace("-", "−")


def aid_table(boards: Mapping[Scale, Board]) -> str:
    """AID minus its controls, problem by problem, at both scales."""
    lines = ["| AID minus | " + " | ".join(f"`{problem.name}`" for problem in PROBLEMS) + " |"]
    lines.append("|---" * (1 + len(PROBLEMS)) + "|")
    for scale, board in boards.items():
        for control in CONTROLS:
            found = differences(board, ("aid", control))
            cells = [cell(found.get(problem.name)) for problem in PROBLEMS]
            lines.append(f"| `{control}`, {SIZES[scale]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cell(by_seed: np.ndarray | None) -> str:
    """Bold if the interval does not hold 0."""
    if by_seed is None:
        return "–"
    low, high = mean_interval(by_seed) or (0.0, 0.0)
    star = "**" if low > 0.0 or high < 0.0 else ""
    return f"{star}{signed(float(by_seed.mean()))}{star} [{signed(low)}, {signed(high)}]"


def chosen_table(boards: Mapping[Scale, Board]) -> str:
    """What the draws chose: the lowest, the median and the highest over the problems."""
    lines = ["| | " + " | ".join(SIZES[scale] for scale in boards) + " |", "|---" * (1 + len(boards)) + "|"]
    everything = [by_problem(board) for board in boards.values()]
    for entry in FIRST:
        settings = [
            [one.settings[one.chosen] for entered in results.values() if (one := entered.get(entry)) is not None]
            for results in everything
        ]
        for field in settings[0][0]:
            name = f"`{entry}`, rate" if field == "learning_rate" else f"`{field}`"
            cells = [spread([setting[field] for setting in own]) for own in settings]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def spread(values: Sequence[Any]) -> str:
    if not values:
        return "–"
    if isinstance(values[0], bool):
        return f"True on {sum(values)} of {len(values)}"
    return f"{min(values):.3g}, {median(values):.3g}, {max(values):.3g}"


def p_table(boards: Mapping[Scale, Board]) -> str:
    """Draws of p and the rate on each problem, in the order by which one was chosen."""
    lines = [f"| problem | chosen: p, rate, share | next | best with p of {HIGH_P} or more |", "|---|---|---|---|"]
    for scale, board in boards.items():
        for problem, entered in by_problem(board).items():
            if "aid" not in entered:
                continue
            chance = BY_NAME[problem].chance(scale)
            unit, result = unit_of(entered, chance), entered["aid"]
            order = sorted(range(len(result.draws)), key=lambda i: (-result.draws[i].tuning_score, i))
            shares = [(run.later_score - chance) / unit for run in result.draws]
            rows = [(s["aid.relu_prob"], s["learning_rate"]) for s in result.settings]
            words = [f"{p}, {rate:.0e}, {shares[i]:.2f}".replace("e-0", "e-") for i, (p, rate) in enumerate(rows)]
            high = next(words[i] for i in order if rows[i][0] >= HIGH_P)
            lines.append(f"| `{problem}`, {SIZES[scale]} | {words[order[0]]} | {words[order[1]]} | {high} |")
    return "\n".join(lines)
