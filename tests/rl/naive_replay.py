"""A replay that stores whole stacks, written to be obviously right: what Replay is held against."""

from collections import deque
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Whole:
    """One step with everything that belongs to it."""

    first_frame: int  # the number of the oldest frame of the episode that its stack shows
    stack: np.ndarray
    action: int
    reward: float
    next_stack: np.ndarray
    terminal: bool


class NaiveReplay:
    """Keeps every step; shows those whose frames are among the last ``capacity``."""

    def __init__(self, capacity: int, frame_shape: tuple[int, int], *, num_stacked: int) -> None:
        self.capacity, self.num_stacked = capacity, num_stacked
        self.empty = np.zeros(frame_shape, dtype=np.uint8)
        self.num_frames = 0
        self.steps: dict[int, Whole] = {}  # by the number of the frame that was acted on

    def begin(self, frame: np.ndarray) -> None:
        self.recent = deque([self.empty] * self.num_stacked, maxlen=self.num_stacked)
        self.start = self.num_frames
        self._show(frame)

    def add(self, action: int, reward: float, *, frame: np.ndarray, terminal: bool) -> None:
        acted_on, stack = self.num_frames - 1, np.stack(self.recent)
        self._show(frame)
        first_frame = max(self.start, acted_on - self.num_stacked + 1)
        self.steps[acted_on] = Whole(first_frame, stack, action, reward, np.stack(self.recent), terminal)

    def _show(self, frame: np.ndarray) -> None:
        self.recent.append(frame)
        self.num_frames += 1

    def whole_steps(self) -> dict[int, Whole]:
        oldest = self.num_frames - self.capacity
        return {number: step for number, step in self.steps.items() if step.first_frame >= oldest}
