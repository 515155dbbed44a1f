"""DQN as a problem: its settings, and the schedules that follow from them."""

import math
from dataclasses import dataclass, field
from typing import Literal

from supple.metrics.base import Metric
from supple.metrics.rank import EffectiveRank
from supple.metrics.units import DormantRatio, SaturatedShare, SignEntropy
from supple_lab.errors import at_least, positive, within
from supple_lab.rl.base import Game
from supple_lab.spec import Problem

Mode = Literal["eval", "train"]  # of a forward: whether its activations draw masks
MAX_STACKED = 256  # the replay counts the frames before a stack's last in a byte
MAX_BATCH = 2**16  # more is a slip: the states of such a batch of Atari take 7 GiB
MAX_REPLAY_RATIO = 1_000  # more is a slip: with a batch of 32, each step would be learned from 32,000 times
METRICS: tuple[Metric, ...] = (DormantRatio(), SaturatedShare(), SignEntropy(), EffectiveRank())


Boundaries = Literal["updates", "iterations"]


@dataclass(frozen=True, kw_only=True)
class DQN(Problem):
    """Steps are the agent's, four frames each in Atari. Defaults are the paper's, or Dopamine's if it is silent.

    An iteration of training is followed by an evaluation. It is played in segments, each by a new environment that is
    made from the run's seed and the segment's number; a run can stop and go on between two of them. A segment, and so
    an iteration, ends with a game, at the first one that ends when its steps are over.
    """

    name = "dqn"
    game: Game
    num_iterations: int = 10  # each ends with an evaluation
    steps_per_iteration: int = 250_000  # of training; the last game is played to its end
    steps_per_segment: int = 10_000  # after which a run can stop and go on; the last game is played to its end
    evaluation_steps: int = 125_000  # after each iteration; Dopamine's
    evaluation_epsilon: float = 0.001  # the probability of a random action in evaluations
    num_random_steps: int = 20_000  # at the start, before the first update
    num_decay_steps: int = 250_000  # Dopamine's: epsilon falls from 1 to the floor in so many steps after those
    epsilon_floor: float = 0.01  # the least probability of a random action in training
    replay_ratio: float = 1.0  # updates a step
    target_period: int = 2_000  # steps between copies into the target network
    boundary_period: int = 1_000  # updates between boundaries, at which ReDo recycles (Sokar et al. 2023) and S&P acts
    batch_size: int = 32  # steps that an update learns from
    discount: float = 0.99  # of what is earned a step later
    capacity: int = 1_000_000  # frames of the replay
    num_stacked: int = 4  # frames that the network sees at once
    act_mode: Mode = "eval"  # of the network while it acts; the paper (appendix H): train destabilises
    target_mode: Mode = "eval"  # of the target network; the paper is silent
    metrics: tuple[Metric, ...] = METRICS  # measured at the end of each iteration
    boundaries: Boundaries = field(default="updates", metadata={"later": True})  # iterations: where these end
    epsilon_restarts: bool = field(default=False, metadata={"later": True})  # with each iteration: its game may be new

    def __post_init__(self) -> None:
        counts = ("num_iterations", "steps_per_iteration", "steps_per_segment", "evaluation_steps", "num_decay_steps")
        at_least(1, self, *counts, "target_period", "boundary_period")
        within(1, MAX_BATCH, self, "batch_size")
        within(1, MAX_STACKED, self, "num_stacked")
        at_least(1, self, "num_random_steps")  # an update needs a step to learn from
        within(0, 1, self, "evaluation_epsilon", "epsilon_floor", "discount")
        if labelled := [metric.name for metric in self.metrics if metric.needs_task]:
            raise ValueError(f"DQN.metrics: {', '.join(labelled)} needs labelled images, which games do not have.")
        # At worst the newest frame begins a game and the one before ended one: the stack before those must be there.
        if self.capacity < self.num_stacked + 2:
            raise ValueError(
                f"DQN.capacity counts frames, at least {self.num_stacked + 2}, two more than are stacked; "
                f"got {self.capacity}."
            )
        positive(self, "replay_ratio")
        within(0, MAX_REPLAY_RATIO, self, "replay_ratio")
        if self.boundary_period < self.replay_ratio:
            raise ValueError(
                f"DQN.boundary_period counts updates, at replay ratio {self.replay_ratio:g} at least "
                f"{math.ceil(self.replay_ratio)}: a step has at most one boundary; got {self.boundary_period}."
            )

    @property
    def num_records(self) -> int:
        return self.num_iterations

    def epsilon(self, step: int) -> float:
        """The probability of a random action at a step, counted from 0: 1 at first, then linearly down to the floor.

        Dopamine's schedule. A function of the steps taken, so that a resumed run needs no memory. If epsilon restarts,
        steps are those of the iteration; updates do not pause again.
        """
        decayed = (step - self.num_random_steps) / self.num_decay_steps
        return 1.0 - (1.0 - self.epsilon_floor) * min(1.0, max(0.0, decayed))

    def updates_due(self, step: int) -> int:
        """How many updates a step, counted from 0, brings: with what comes before, the replay ratio, rounded down."""
        num_before = step - self.num_random_steps
        if num_before < 0:
            return 0
        return math.floor(self.replay_ratio * (num_before + 1)) - math.floor(self.replay_ratio * num_before)

    @property
    def updates_between_boundaries(self) -> int:
        """Of iterations that end on the dot, if boundaries are where these end."""
        by_iteration = max(1, math.floor(self.replay_ratio * self.steps_per_iteration))
        return self.boundary_period if self.boundaries == "updates" else by_iteration

    @property
    def num_updates(self) -> int:
        """Of a run whose iterations end on the dot; games that last longer add some."""
        num_steps = self.num_iterations * self.steps_per_iteration
        return math.floor(self.replay_ratio * max(0, num_steps - self.num_random_steps))
