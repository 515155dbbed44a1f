"""Atari scores: human-normalised, their interquartile mean over games and seeds, and its stratified bootstrap interval.

IQM and bootstrap as Agarwal et al. (2021), "Deep reinforcement learning at the edge of the statistical precipice".
"""

from collections.abc import Callable

import numpy as np

from supple_lab.results.intervals import NUM_RESAMPLES, percentile_interval
from supple_lab.rl.games import GAMES

LARGEST_DRAW = 4_000_000  # indices at once, so that 50,000 resamples of 85 scores take little memory


def human_normalised(scores: np.ndarray, game: str) -> np.ndarray:
    """0 for random play, 1 for the human's score."""
    random, human = GAMES[game]
    return (np.asarray(scores, dtype=float) - random) / (human - random)


def iqm(scores: np.ndarray) -> np.ndarray:
    """Mean of the middle half over the last axis: a quarter of the scores, rounded down, is cut at either end.

    Not a number if one of them is none: sorting puts it above the best score, where it would be cut.
    """
    scores = np.asarray(scores, dtype=float)
    ordered = np.sort(scores, axis=-1)
    number = ordered.shape[-1]
    cut = number // 4
    middle = ordered[..., cut : number - cut].mean(axis=-1)
    return np.where(np.isfinite(scores).all(axis=-1), middle, np.nan)[()]  # a number for one row of scores


def stratified_bootstrap(
    scores: np.ndarray,
    generator: np.random.Generator,
    *,
    statistic: Callable[[np.ndarray], np.ndarray] = iqm,
    num_resamples: int = NUM_RESAMPLES,
) -> tuple[float, float] | None:
    """Percentile interval of a statistic over all scores (games, seeds), the seeds drawn again within each game.

    The games stay as they are: the interval says what other seeds would give, not other games. None for a single seed.
    """
    num_games, num_seeds = scores.shape
    if num_seeds < 2:
        return None
    games = np.arange(num_games)[:, None]
    parts = max(1, -(-num_resamples * scores.size // LARGEST_DRAW))
    resampled = []
    for part in np.array_split(np.empty(num_resamples), parts):
        drawn = generator.integers(num_seeds, size=(len(part), num_games, num_seeds))
        resampled.append(statistic(scores[games, drawn].reshape(len(part), -1)))
    return percentile_interval(np.concatenate(resampled))
