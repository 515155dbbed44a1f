"""Quarters: the stages in four parts, for what the paper says to be so throughout."""

import numpy as np


def quarters(num_stages: int, *, start: int = 0) -> list[slice]:
    """The stages from the start on in four parts; fewer where there are fewer stages."""
    parts = [part for part in np.array_split(np.arange(start, num_stages), 4) if len(part)]
    return [slice(int(part[0]), int(part[-1]) + 1) for part in parts]
