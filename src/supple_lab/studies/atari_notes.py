"""Atari's notes: what a reader of the study must know first, and what the paper leaves open."""

from collections.abc import Iterable

from supple_lab.studies.atari_conditions import TITLES, has_own_p, per_game, problem_of
from supple_lab.studies.condition import Condition
from supple_lab.studies.hyperparameters import slips
from supple_lab.studies.labels import label_of_optimizer
from supple_lab.studies.order import Order

SMOKE = "Smoke scale: a few updates in one game show that everything runs; the numbers mean nothing."
SILENT = (
    "Where the paper is silent: sticky actions (0.25), losing a life ends no episode, no idle frames, games of at most "
    "27,000 steps, convolutions without padding, Xavier-uniform weights, epsilon from 1 to {floor} in {decay:,} steps, "
    "the target network in evaluation mode, scores from {evaluation:,} steps at epsilon {epsilon} after each "
    "iteration, effective rank on 2,048 states of the replay."
)
CHOSEN = (
    "The paper chose p for each game on the scores that it reports, which flatters. One p for all games (AID 0.99, "
    "Dropout 0.01) is the commonest of those choices: made on the same scores, but once instead of 17 times."
)
UNSEARCHED = "Not searched, with the commonest p of the paper's (AID 0.99, Dropout 0.01): {}."


def notes(order: Order, conditions: Iterable[Condition]) -> tuple[str, ...]:
    """By scale, and by what a search leaves as it is."""
    told = (SMOKE,) if order.scale == "smoke" else quick_notes(order) if order.scale == "quick" else paper_notes(order)
    left = [condition.label for condition in conditions if not condition.has_search]
    return (*told, UNSEARCHED.format("; ".join(left))) if order.search and left else told


def quick_notes(order: Order) -> tuple[str, ...]:
    """How the scale differs from the paper's protocol."""
    rows = per_game("RoadRunner", order).settings(order)
    rates = dict.fromkeys(label_of_optimizer(row.optimizer) for row in rows)
    picked = "Game, rate and p (AID 0.99, Dropout 0.01) were" if has_own_p(order) else "The game was"
    return (
        "Quick scale, not the paper's protocol: 30,000 steps of RoadRunner, evaluated for 2,000 steps after each "
        f"6,000; {', '.join(rates)}, target copies every 500 steps, a replay of 50,000 frames. No claim can be "
        f"decided. {picked} chosen so that something is learned in so few steps. An evaluation may hold a single "
        "game, and its score leaps.",
        silent(order),
    )


def paper_notes(order: Order) -> tuple[str, ...]:
    """Which learning rate is run, and how p was chosen."""
    slip = slips("atari")[0]
    printed, meant = (label_of_optimizer(setting.optimizer) for setting in (slip.printed, slip.meant))
    rate = f"{printed}, as printed" if order.as_printed else f"{meant}, not {printed} as printed"
    return (f"All methods are run with {rate}: that is {slip.reason}.", CHOSEN, silent(order))


def silent(order: Order) -> str:
    """What the paper does not say, as the scale has it."""
    problem = problem_of(TITLES[order.scale][0], order)
    return SILENT.format(
        floor=problem.epsilon_floor,
        decay=problem.num_decay_steps,
        evaluation=problem.evaluation_steps,
        epsilon=problem.evaluation_epsilon,
    )
