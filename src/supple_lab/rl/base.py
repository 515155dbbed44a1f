"""Environment: frames out, actions in. Game: an environment as data, started from a seed."""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from supple.fields import Checked

Frame = npt.NDArray[np.uint8]


class Step(NamedTuple):
    frame: Frame
    reward: float  # what the learner is paid; clipped if the game's points are too large
    terminal: bool  # nothing more can be earned in this episode: its value ends here
    truncated: bool  # the episode was cut off while more could be earned: its value goes on
    score: float | None  # the points of the whole game, unclipped, once the game is over

    @property
    def over(self) -> bool:
        """Whether the episode has ended, one way or the other; ``reset`` starts the next."""
        return self.terminal or self.truncated


class Environment(ABC):
    """One copy of a game being played. The same seed and the same actions give the same frames and rewards."""

    num_actions: int
    frame_shape: tuple[int, int]

    @abstractmethod
    def reset(self) -> Frame:
        """The first frame of an episode; to be called at the start and after each step that is over."""

    @abstractmethod
    def step(self, action: int) -> Step:
        """Take one of ``num_actions`` actions."""


class Game(Checked, ABC):
    """A frozen dataclass in every subclass; its fields say which game by which rules."""

    name: ClassVar[str]

    @abstractmethod
    def start(self, seed: int) -> Environment:
        """A new environment that knows nothing of earlier ones: a run that resumes here needs no emulator's state."""

    def at(self, iteration: int, seed: int) -> Self:
        """The game as a run of that seed plays it in an iteration; the same in all, unless its rules change."""
        return self
