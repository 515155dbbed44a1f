"""Shuffled: a game whose rewards have lost their connection to what was done; nothing of the game can be learned."""

from dataclasses import dataclass

import numpy as np

from supple_lab.rl.base import Environment, Frame, Game, Step


@dataclass(frozen=True, kw_only=True)
class Shuffled(Game):
    """Another game, each of whose rewards is one of its earlier rewards, drawn at random; scores remain true."""

    name = "shuffled"
    game: Game

    def start(self, seed: int) -> "ShuffledEnvironment":
        return ShuffledEnvironment(self.game.start(seed), seed)


class ShuffledEnvironment(Environment):
    """Passes everything on but the rewards."""

    def __init__(self, inner: Environment, seed: int) -> None:
        self.inner = inner
        self.num_actions = inner.num_actions
        self.frame_shape = inner.frame_shape
        self._stream = np.random.default_rng(seed)
        self._rewards = [0.0]  # before there are any, nothing is paid

    def reset(self) -> Frame:
        return self.inner.reset()

    def step(self, action: int) -> Step:
        step = self.inner.step(action)
        paid = self._rewards[self._stream.integers(len(self._rewards))]
        self._rewards.append(step.reward)
        return step._replace(reward=paid)
