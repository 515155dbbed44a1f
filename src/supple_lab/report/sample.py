"""Sample: one number a run, with the seed and the id of the run it comes from."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What a claim is decided by. numpy reads it as an array of its values."""

    values: np.ndarray  # (runs,); not a number for a run that diverged before it had one
    seeds: tuple[int, ...]
    runs: tuple[str, ...]  # ids, one a value; all that stand behind them where a value is made of several runs

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype)

    def minus(self, other: "Sample") -> "Sample":
        """The differences within each seed that both have: same data, same initialisation, so much noise cancels."""
        ours, theirs = self._places(), other._places()
        seeds = [seed for seed in ours if seed in theirs]
        pairs = [(ours[seed], theirs[seed]) for seed in seeds]
        return Sample(
            values=np.array([self.values[i] - other.values[j] for i, j in pairs], dtype=float),
            seeds=tuple(seeds),
            runs=tuple(dict.fromkeys(run for i, j in pairs for run in (*self._behind(i), *other._behind(j)))),
        )

    def of_seeds(self, seeds: Collection[int]) -> "Sample":
        """The values of these seeds alone."""
        places = [place for place, seed in enumerate(self.seeds) if seed in seeds]
        return Sample(
            values=self.values[places],
            seeds=tuple(self.seeds[place] for place in places),
            runs=tuple(dict.fromkeys(run for place in places for run in self._behind(place))),
        )

    def _behind(self, place: int) -> tuple[str, ...]:
        return (self.runs[place],) if len(self.runs) == len(self.values) else self.runs

    def _places(self) -> dict[int, int]:
        repeated = [seed for seed, number in Counter(self.seeds).items() if number > 1]
        if repeated:
            raise ValueError(
                f"a difference by seed needs one run a seed; seed {repeated[0]} has {self.seeds.count(repeated[0])}. "
                "Narrow the results down with where(), or choose a configuration with select()."
            )
        return {seed: place for place, seed in enumerate(self.seeds)}
