"""Chain: a game small enough that its optimal value is known; the control that a learner learns at all."""

from dataclasses import dataclass, field, replace
from typing import Literal, Self

import numpy as np
import torch

from supple_lab.errors import at_least
from supple_lab.rl.base import Environment, Frame, Game, Step
from supple_lab.streams import stream


@dataclass(frozen=True, kw_only=True)
class Chain(Game):
    """Places in a row. Each has one action that leads on, the others stay; leaving the last place pays 1 and ends.

    An episode is cut off after three times the steps that are needed. A learner that takes the cut for an end, or that
    has one action wrong, does not come to the optimal value. With ``pay="way"`` every step that leads on pays its share
    of 1, an episode has no step to spare, and its score is the share of the way that was gone.
    """

    name = "chain"
    num_places: int = 6
    num_actions: int = 4
    pay: Literal["end", "way"] = field(default="end", metadata={"later": True})

    def __post_init__(self) -> None:
        at_least(1, self, "num_places")
        at_least(2, self, "num_actions")

    def start(self, seed: int) -> "ChainEnvironment":
        """The seed has no effect: nothing in the chain is random."""
        return ChainEnvironment(self)

    def way_on(self, place: int) -> int:
        """The action that leads on: not the same in neighbouring places."""
        return (place * place + 1) % self.num_actions

    def optimal_value(self, discount: float, *, place: int = 0) -> float:
        """What the best player can expect from a place: 1, discounted once for each step before the last."""
        return discount ** (self.num_places - 1 - place)


class ChainEnvironment(Environment):
    """A frame is a row of pixels with a 1 where the player stands; ones, since not every network rescales bytes."""

    def __init__(self, chain: Chain) -> None:
        self.chain, self.num_actions, self.frame_shape = chain, chain.num_actions, (1, chain.num_places)
        self.max_steps = chain.num_places * (3 if chain.pay == "end" else 1)

    def reset(self) -> Frame:
        self._place = self._num_steps = 0
        return self._frame()

    def step(self, action: int) -> Step:
        self._num_steps += 1
        leads_on = action == self.chain.way_on(self._place)
        self._place += leads_on
        arrived = self._place == self.chain.num_places
        truncated = not arrived and self._num_steps == self.max_steps
        share, gone = leads_on / self.chain.num_places, self._place / self.chain.num_places
        reward, result = (float(arrived), float(arrived)) if self.chain.pay == "end" else (share, gone)
        score = result if arrived or truncated else None
        return Step(self._frame(), reward=reward, terminal=arrived, truncated=truncated, score=score)

    def _frame(self) -> Frame:
        return (np.arange(self.chain.num_places) == self._place).astype(np.uint8)[None]


@dataclass(frozen=True, kw_only=True)
class Shuffled(Game):
    """Another game, each of whose rewards is one of its earlier rewards, drawn at random; scores remain true."""

    name = "shuffled"
    game: Game

    def start(self, seed: int) -> "ShuffledEnvironment":
        return ShuffledEnvironment(self.game.start(seed), seed)

    def at(self, iteration: int, seed: int) -> Self:
        return replace(self, game=self.game.at(iteration, seed))


class ShuffledEnvironment(Environment):
    """Passes everything on but the rewards."""

    def __init__(self, inner: Environment, seed: int) -> None:
        self.inner, self.num_actions, self.frame_shape = inner, inner.num_actions, inner.frame_shape
        self._stream = np.random.default_rng(seed)
        self._rewards = [0.0]  # before there are any, nothing is paid

    def reset(self) -> Frame:
        return self.inner.reset()

    def step(self, action: int) -> Step:
        step = self.inner.step(action)
        paid = self._rewards[self._stream.integers(len(self._rewards))]
        self._rewards.append(step.reward)
        return step._replace(reward=paid)


@dataclass(frozen=True, kw_only=True)
class Renamed(Game):
    """Another game, whose actions change their names at each iteration: what was right is wrong."""

    name = "renamed"
    game: Game
    order: tuple[int, ...] = ()  # what each action does in the game itself; empty: itself

    def start(self, seed: int) -> "RenamedEnvironment":
        return RenamedEnvironment(self.game.start(seed), self.order)

    def at(self, iteration: int, seed: int) -> Self:
        inner = self.game.at(iteration, seed)
        drawn = torch.randperm(inner.start(0).num_actions, generator=stream(seed, "names of actions", iteration))
        return replace(self, game=inner, order=tuple(drawn.tolist()))


class RenamedEnvironment(Environment):
    """Passes everything on but the actions."""

    def __init__(self, inner: Environment, order: tuple[int, ...]) -> None:
        self.inner, self.num_actions, self.frame_shape = inner, inner.num_actions, inner.frame_shape
        self._order = order or tuple(range(inner.num_actions))

    def reset(self) -> Frame:
        return self.inner.reset()

    def step(self, action: int) -> Step:
        return self.inner.step(self._order[action])
