"""MinAtar's games (Young & Tian 2019), one after another: five small games of 10x10 pixels with 6 actions."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from supple_lab.errors import at_least, within
from supple_lab.registry import UnknownName, no_such
from supple_lab.rl.base import Environment, Frame, Game, Step

TITLES = ("breakout", "asterix", "freeway", "space_invaders", "seaquest")
NUM_PLANES = 10  # seaquest's, the most; other games leave the last ones empty
SIDE = 10
MAX_SEED = 2**32  # numpy's older generators, which the games use, take no larger one


@dataclass(frozen=True, kw_only=True)
class MinAtar(Game):
    """An iteration a game, in this order and then again from the first."""

    name = "minatar"
    titles: tuple[str, ...] = TITLES
    place: int = 0  # of the game that is played
    max_steps: int = 1_000  # after which a game is cut off; freeway has a limit of its own

    def __post_init__(self) -> None:
        at_least(1, self, "max_steps")
        for title in self.titles:
            if title not in TITLES:
                raise UnknownName(no_such("game of MinAtar", title, TITLES))
        within(0, len(self.titles) - 1, self, "place")

    @property
    def title(self) -> str:
        return self.titles[self.place] if len(self.titles) == 1 else "MinAtar"

    def start(self, seed: int) -> "MinAtarEnvironment":
        try:
            from minatar import Environment as Emulator
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "MinAtar's games need minatar: pip install -e '.[control]' in a checkout."
            ) from error
        emulator = Emulator(self.titles[self.place])
        emulator.seed(seed % MAX_SEED)
        return MinAtarEnvironment(emulator, self.max_steps)

    def at(self, iteration: int, seed: int) -> Self:
        return replace(self, place=iteration % len(self.titles))


class MinAtarEnvironment(Environment):
    """A frame holds the planes of a game one below the other: a 1 where a thing of that kind is."""

    num_actions, frame_shape = 6, (NUM_PLANES * SIDE, SIDE)

    def __init__(self, emulator: Any, max_steps: int) -> None:
        self.emulator, self.max_steps = emulator, max_steps

    def reset(self) -> Frame:
        self.emulator.reset()
        self._num_steps, self._score = 0, 0.0
        return self._frame()

    def step(self, action: int) -> Step:
        reward, terminal = self.emulator.act(action)
        self._num_steps += 1
        self._score += float(reward)
        truncated = not terminal and self._num_steps >= self.max_steps
        score = self._score if terminal or truncated else None
        return Step(self._frame(), float(reward), bool(terminal), truncated, score)

    def _frame(self) -> Frame:
        planes = self.emulator.state().transpose(2, 0, 1).astype(np.uint8).reshape(-1, SIDE)
        frame = np.zeros(self.frame_shape, dtype=np.uint8)
        frame[: len(planes)] = planes
        return frame
