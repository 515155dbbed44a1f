"""By seed: one number for each seed from several samples, where a claim asks for more than a difference."""

from collections.abc import Callable, Sequence

import numpy as np

from supple_lab.report.sample import Sample


def by_seed(samples: Sequence[Sample], number_of: Callable[[np.ndarray], float]) -> Sample:
    """The number made of the samples' values for a seed, in the samples' order; for the seeds that all of them have."""
    tables = [dict(zip(sample.seeds, sample.values, strict=True)) for sample in samples]
    seeds = [seed for seed in samples[0].seeds if all(seed in table for table in tables)] if samples else []
    return Sample(
        values=np.array([number_of(np.array([table[seed] for table in tables])) for seed in seeds], dtype=float),
        seeds=tuple(seeds),
        runs=tuple(
            dict.fromkeys(
                run
                for seed in seeds
                for sample in samples
                for own, run in zip(sample.seeds, sample.runs, strict=True)
                if own == seed
            )
        ),
    )
