"""Made episodes: every frame different from every other, so that a wrong one shows."""

from collections.abc import Iterable

import numpy as np

FRAME_SHAPE = (2, 3)


def frame(number: int) -> np.ndarray:
    """A frame that tells its number, never zero in any pixel."""
    low, high = number % 250 + 1, number // 250 + 1
    return np.array([[low, high, low], [high, low, high]], dtype=np.uint8)


def add_episodes(replays: Iterable, lengths: Iterable[int], *, first: int = 0) -> int:
    """Play episodes of these lengths into each replay, every second one truncated; the number of the next frame."""
    number = first
    for index, length in enumerate(lengths):
        for replay in replays:
            replay.begin(frame(number))
        for step in range(1, length + 1):
            terminal = step == length and index % 2 == 0
            for replay in replays:
                replay.add(number % 5, (number % 7 - 3) / 2, frame=frame(number + 1), terminal=terminal)
            number += 1
        number += 1
    return number
