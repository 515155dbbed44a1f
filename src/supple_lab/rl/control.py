"""Control: tasks as data, whose friction changes from stage to stage, or which are one game after another."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from supple.fields import Checked
from supple_lab.errors import at_least, positive
from supple_lab.rl.base import Environment, Game
from supple_lab.streams import stream_seed

Observation = npt.NDArray[np.float64]


class Motion(NamedTuple):
    """What a step of an environment gives."""

    observation: Observation
    reward: float
    terminal: bool  # nothing more can be earned in this episode: its value ends here
    truncated: bool  # the episode was cut off while more could be earned: its value goes on


class Body(ABC):
    """One copy of a task under way. The same seed and the same actions give the same observations and rewards."""

    shape: tuple[int, ...]  # of an observation
    num_actions: int
    chooses = False  # whether an action is one of so many, or so many forces
    largest: float = math.inf  # force; actions are clipped to it

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Of an observation as models read it."""
        return (1, 1, math.prod(self.shape)) if len(self.shape) < 3 else self.shape  # type: ignore[return-value]

    @abstractmethod
    def reset(self) -> Observation:
        """The first observation of an episode; to be called at the start and after each step that ends one."""

    @abstractmethod
    def step(self, action: npt.NDArray[np.float64]) -> Motion: ...


def mean_return(body: Body, act: Callable[[Observation], Observation], *, num_episodes: int) -> float:
    """Over whole episodes."""
    returns = []
    for _ in range(num_episodes):
        seen, earned, over = body.reset(), 0.0, False
        while not over:
            motion = body.step(act(seen))
            seen, earned, over = motion.observation, earned + motion.reward, motion.terminal or motion.truncated
        returns.append(earned)
    return float(np.mean(returns))


def mean_score(scores: list[float]) -> dict[str, float]:
    """What a record says of the returns of episodes while learning; nothing, if none ended."""
    return {"train_score": float(np.mean(scores))} if scores else {}


class Task(Checked, ABC):
    """A frozen dataclass in every subclass."""

    name: ClassVar[str]

    @abstractmethod
    def start(self, seed: int) -> Body:
        """A new body that knows nothing of earlier ones: a run that resumes here needs no simulator's state."""

    @abstractmethod
    def at(self, stage: int, seed: int) -> Self:
        """The task as a run of that seed has it in a stage."""

    @abstractmethod
    def facts(self) -> dict[str, float]:
        """What the record of a stage says of it."""


@dataclass(frozen=True, kw_only=True)
class Slippery(Task):
    """From the second stage on, friction is drawn for each."""

    friction: float = 1.0  # what the task's own is multiplied by
    least: float = 0.1  # of the factors that are drawn, evenly in their logarithm
    most: float = 2.0  # likewise

    def __post_init__(self) -> None:
        positive(self, "friction", "least")
        if self.least > self.most:
            raise ValueError(f"{type(self).__name__}.least must be at most its most, {self.most}; got {self.least}.")

    def facts(self) -> dict[str, float]:
        return {"friction": self.friction}

    def at(self, stage: int, seed: int) -> Self:
        if stage == 0:
            return self
        drawn = np.random.default_rng(stream_seed(seed, "friction", stage)).random()
        return replace(self, friction=self.least * (self.most / self.least) ** drawn)


@dataclass(frozen=True, kw_only=True)
class Slide(Slippery):
    """A weight on a line, to be pushed to its middle and held there: needs no simulator."""

    name = "slide"
    num_steps: int = 50  # of an episode

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(1, self, "num_steps")

    def start(self, seed: int) -> "SlideBody":
        return SlideBody(self, np.random.default_rng(seed))


class SlideBody(Body):
    """Pays 1 in the middle, 0 at distance 1 and beyond."""

    shape, num_actions, largest = (2,), 1, 1.0

    def __init__(self, task: Slide, chance: np.random.Generator) -> None:
        self.task, self.chance = task, chance

    def reset(self) -> Observation:
        self._place, self._speed, self._num_steps = self.chance.uniform(-1.0, 1.0), 0.0, 0
        return np.array([self._place, self._speed])

    def step(self, action: npt.NDArray[np.float64]) -> Motion:
        self._num_steps += 1
        self._speed += 0.2 * (float(action[0]) - self.task.friction * self._speed)
        self._place += 0.2 * self._speed
        observation, is_last = np.array([self._place, self._speed]), self._num_steps == self.task.num_steps
        return Motion(observation, max(0.0, 1.0 - abs(self._place)), terminal=False, truncated=is_last)


PAY_FOR_HEALTH = ("Ant", "Hopper", "Walker2d")
NO_HEALTH: dict[str, Any] = {"healthy_reward": 0.0, "terminate_when_unhealthy": False}


@dataclass(frozen=True, kw_only=True)
class MuJoCo(Slippery):
    """One of gymnasium's tasks: HalfCheetah, Ant, Hopper, Walker2d. All its surfaces have the friction.

    By progress alone, nothing is paid for being healthy and nothing ends an episode early, as in HalfCheetah. Else an
    Ant that stands still earns 1 a step: more than one that has begun to walk.

    HalfCheetah alone is integrated by Euler's rule, whose errors agents on slippery ground learn to gain speed from
    (docs/control.md): by Runge and Kutta's, as the others are, a step takes three times as long.
    """

    name = "mujoco"
    title: str = "HalfCheetah"
    progress_alone: bool = field(default=False, metadata={"later": True})
    runge_kutta: bool = field(default=False, metadata={"later": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.progress_alone and self.title not in PAY_FOR_HEALTH:
            raise ValueError(
                f"MuJoCo.progress_alone is for {', '.join(PAY_FOR_HEALTH)}, which also pay for health; "
                f"leave it out for {self.title}."
            )

    def start(self, seed: int) -> "MuJoCoBody":
        try:
            import gymnasium
            import mujoco

            # HalfCheetah's file has a word that MuJoCo 4 warns of, on the terminal and in a file, for each body.
            mujoco.set_mju_user_warning(lambda text: None)
            try:
                environment = gymnasium.make(f"{self.title}-v5", **(NO_HEALTH if self.progress_alone else {}))
            finally:
                mujoco.set_mju_user_warning(None)
            if self.runge_kutta:
                environment.unwrapped.model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4  # type: ignore[attr-defined]
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"tasks of MuJoCo need {error.name}: pip install -e '.[control]' in a checkout."
            ) from error
        return MuJoCoBody(environment, self.friction, seed)


class MuJoCoBody(Body):
    """Cut off after a thousand steps, by gymnasium."""

    def __init__(self, environment: Any, friction: float, seed: int) -> None:
        self.environment = environment
        self._seed: int | None = seed
        environment.unwrapped.model.geom_friction[:, 0] *= friction  # sliding; the columns after it turn and roll
        self.shape, (self.num_actions,) = environment.observation_space.shape, environment.action_space.shape
        self.largest = float(environment.action_space.high[0])

    def reset(self) -> Observation:
        seed, self._seed = self._seed, None  # the first alone: later episodes go on with its random stream
        return np.asarray(self.environment.reset(seed=seed)[0], dtype=np.float64)

    def step(self, action: npt.NDArray[np.float64]) -> Motion:
        observation, reward, terminal, truncated, _ = self.environment.step(action)
        return Motion(np.asarray(observation, dtype=np.float64), float(reward), bool(terminal), bool(truncated))


@dataclass(frozen=True, kw_only=True)
class Play(Task):
    """A game, or one after another; an action is one of the game's."""

    name = "play"
    game: Game

    def start(self, seed: int) -> "PlayBody":
        return PlayBody(self.game.start(seed))

    def at(self, stage: int, seed: int) -> Self:
        return replace(self, game=self.game.at(stage, seed))

    def facts(self) -> dict[str, float]:
        return {}


class PlayBody(Body):
    """Shows the game's frames as they are."""

    chooses = True

    def __init__(self, environment: Environment) -> None:
        self.environment, self.num_actions = environment, environment.num_actions
        self.shape = (1, *environment.frame_shape)

    def reset(self) -> Observation:
        return self.environment.reset()[None].astype(np.float64)

    def step(self, action: npt.NDArray[np.float64]) -> Motion:
        frame, reward, terminal, truncated, _ = self.environment.step(int(action))
        return Motion(frame[None].astype(np.float64), reward, terminal, truncated)
