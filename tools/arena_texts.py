"""What the published arena says of AID, as sentences and tables for README and the pages that advise.

tools/publish_arena.py puts them between the marks of the documents.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from textwrap import fill
from typing import Any

import numpy as np

from supple_lab.arena.contest import ContestResult
from supple_lab.arena.entries import BASELINE, FIRST, REFERENCE
from supple_lab.arena.problems import PROBLEMS, Scale
from supple_lab.arena.published import Board
from supple_lab.arena.score import BY_NAME, is_better, scores_of
from supple_lab.paper.compare import label_of
from supple_lab.results.intervals import mean_interval

IN_WORDS = ("none", "one", "two", "three", "four", "five", "six")
SIZES: Mapping[Scale, str] = {"quick": "small", "full": "larger"}
CONTROLS = ("leaky_relu", "aid_mean", "vanilla")  # AID beside these
HIGH_P = 0.98
HARDLY = 0.01  # of what a fresh network learns
WHERE = {  # problems of both scales
    "random_labels": "on random labels",
    "permuted_inputs": "on permuted inputs",
    "renamed_actions": "in a game",
}
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
    """What small and larger networks agree on, and AID beside a leaky ReLU."""
    small, larger = (placed(board) for board in boards.values())
    better = [
        f"{listed([name_with_gain(boards, problem, entry) for entry in found])} {where}"
        for problem, where in WHERE.items()
        if (found := agreed(boards, problem))
    ]
    text = "With all methods tuned alike, small and larger networks agree on what is better than ReLU: "
    text += f"{'; '.join(better)}. Compared with a leaky ReLU, AID is {small}, and {larger}."
    return fill(text, width=145, initial_indent=" " * 52).lstrip()  # behind the link


def name_with_gain(boards: Mapping[Scale, Board], problem: str, entry: str) -> str:
    """The name, and how far ahead it is of ReLU if that is next to nothing at one of the scales."""
    gains = [differences(board, (entry, BASELINE))[problem] for board in boards.values()]
    means = [float(gain.mean()) for gain in gains if gain is not None]
    return label_of(entry) + (f" (by {' and '.join(map(signed, means))})" if min(means) < HARDLY else "")


def listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def agreed(boards: Mapping[Scale, Board], problem: str) -> list[str]:
    """The entries that are better than ReLU on the problem at every scale; the reference is none of them."""
    found = [
        {
            entry
            for entry, result in by_problem(board).get(problem, {}).items()
            if is_better(*(scores_of(one, chance) for one in (result, by_problem(board)[problem][BASELINE])))
        }
        for board in boards.values()
        for chance in [BY_NAME[problem].chance(board.scale)]
    ]
    return sorted(set.intersection(*found) - {REFERENCE})


def agreed_table(boards: Mapping[Scale, Board]) -> str:
    """Entries minus ReLU where both scales have runs, in bold if both find them better."""
    lines = ["| minus ReLU: small; larger | " + " | ".join(f"`{problem}`" for problem in WHERE) + " |"]
    lines.append("|---" * (1 + len(WHERE)) + "|")
    for entry in FIRST:
        if entry == BASELINE:
            continue
        cells = []
        for problem in WHERE:
            own = [differences(board, (entry, BASELINE)).get(problem) for board in boards.values()]
            star = "**" if entry in agreed(boards, problem) else ""
            cells.append(star + "; ".join(cell(one).replace("**", "") for one in own) + star)
        lines.append(f"| `{entry}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def placed(board: Board) -> str:
    """On how many problems AID is ahead of a leaky ReLU, or behind, and how far."""
    known = [by_seed for by_seed in differences(board, ("aid", "leaky_relu")).values() if by_seed is not None]
    ends = [mean_interval(one) or (0.0, 0.0) for one in known]
    ahead = [one for one, (low, _) in zip(known, ends, strict=True) if low > 0.0]
    behind = [one for one, (_, high) in zip(known, ends, strict=True) if high < 0.0]
    where = f"{number(ahead)} of {IN_WORDS[len(known)]} {SIZES[board.scale]} problems"
    return f"ahead on {where} and behind on {number(behind)}"


def number(found: Sequence[np.ndarray]) -> str:
    means = ", ".join(signed(float(one.mean())) for one in found)
    return IN_WORDS[len(found)] + (f" ({means})" if found else "")


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
