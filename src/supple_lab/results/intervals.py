"""Means over seeds with honest uncertainty: standard deviation as the paper prints, a 95% interval beside it."""

import math
from functools import cached_property

import numpy as np
from scipy import special

SEED = 0  # of the resamples that tables and pages show: the same values have the same interval everywhere
NUM_RESAMPLES = 10_000
ENDS = (1.0 - 0.95) / 2.0, (1.0 + 0.95) / 2.0  # shares of resamples below the ends of a 95% interval
POSITIONS_AT_ONCE = 256  # 20 MB of resampled means


def mean_and_std(values: np.ndarray) -> tuple[float, float]:
    """Mean and sample standard deviation over seeds; NaN deviation for a single seed."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def mean_interval(values: np.ndarray, *, looks: int = 1) -> tuple[float, float] | None:
    """Student's t interval of the mean over seeds; None for a single seed, which has no spread.

    Of several ``looks``, as in tools/lora_language.py, all intervals together cover their means 95% of the time or more
    (Bonferroni). Not a bootstrap: over two or three seeds its percentile interval is no wider than their range,
    which covers the mean 50% or 75% of the time.
    """
    if len(values) < 2:
        return None
    mean, std = mean_and_std(values)
    reach = float(special.stdtrit(len(values) - 1, 1.0 - ENDS[0] / looks)) * std / math.sqrt(len(values))
    return mean - reach, mean + reach


def bootstrap_interval(values: np.ndarray, generator: np.random.Generator) -> tuple[float, float] | None:
    """Percentile bootstrap interval of the mean over seeds, as papers of the field print it; None for a single seed.

    Too narrow over few seeds (see mean_interval), so that no verdict on a mean rests on it; the one on Atari's IQM
    rests on a stratified one, of scores widened to make up for it.
    """
    if len(values) < 2:
        return None
    drawn = generator.integers(len(values), size=(NUM_RESAMPLES, len(values)))
    return percentile_interval(np.asarray(values)[drawn].mean(axis=1))


def bootstrap_intervals(values: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Both ends of bootstrap_interval at each position of (seeds, positions); the same seeds are drawn at all."""
    number = len(values)
    drawn = generator.integers(number, size=(NUM_RESAMPLES, number))
    places = drawn + number * np.arange(NUM_RESAMPLES)[:, None]  # of each draw in a table of resamples by seeds
    shares = np.bincount(places.ravel(), minlength=NUM_RESAMPLES * number).reshape(NUM_RESAMPLES, number) / number
    parts = np.split(values, range(POSITIONS_AT_ONCE, values.shape[1], POSITIONS_AT_ONCE), axis=1)
    # A row a position: quantiles of rows take less than half the time that those of columns do.
    low, high = np.concatenate([np.quantile(part.T @ shares.T, ENDS, axis=1) for part in parts], axis=1)
    return low, high


def percentile_interval(resampled: np.ndarray) -> tuple[float, float]:
    """The middle part of a statistic over resamples."""
    low, high = np.quantile(resampled, ENDS)
    return float(low), float(high)


class FormattedMean(str):
    """A mean over seeds as text, with the bootstrap interval that tables print beside it."""

    values: np.ndarray
    decimals: int

    @cached_property
    def interval(self) -> tuple[float, float] | None:
        """Drawn when asked for: most places that show a mean have no room for it."""
        return bootstrap_interval(self.values, np.random.default_rng(SEED))


def format_mean(values: np.ndarray, *, decimals: int = 3) -> FormattedMean:
    """Mean and standard deviation as text; tables add the bootstrap interval."""
    mean, std = mean_and_std(values)
    shown = FormattedMean(f"{mean:.{decimals}f}" if np.isnan(std) else f"{mean:.{decimals}f} ± {std:.{decimals}f}")
    shown.values, shown.decimals = np.asarray(values), decimals
    return shown
