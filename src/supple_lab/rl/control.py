"""Continuous control: tasks as data, whose friction changes from stage to stage."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from supple.fields import Checked
from supple_lab.errors import at_least
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

    num_observed: int
    num_actions: int
    largest: float  # force; actions are clipped to it

    @abstractmethod
    def reset(self) -> Observation:
        """The first observation of an episode; to be called at the start and after each step that ends one."""

    @abstractmethod
    def step(self, action: npt.NDArray[np.float64]) -> Motion: ...


@dataclass(frozen=True, kw_only=True)
class Task(Checked, ABC):
    """A frozen dataclass in every subclass. From the second stage on, friction is drawn for each."""

    name: ClassVar[str]
    friction: float = 1.0  # what the task's own is multiplied by
    least: float = 0.1  # of the factors that are drawn, evenly in their logarithm
    most: float = 2.0  # likewise

    def __post_init__(self) -> None:
        if not 0.0 < self.least <= self.most < math.inf or not 0.0 < self.friction < math.inf:
            raise ValueError(
                f"{type(self).__name__}: friction, least and most are positive factors, least <= most; "
                f"got {self.friction}, {self.least} and {self.most}."
            )

    @abstractmethod
    def start(self, seed: int) -> Body:
        """A new body that knows nothing of earlier ones: a run that resumes here needs no simulator's state."""

    def at(self, stage: int, seed: int) -> Self:
        """The task as a run of that seed has it in a stage: the first has the task's own friction."""
        if stage == 0:
            return self
        drawn = np.random.default_rng(stream_seed(seed, "friction", stage)).random()
        return replace(self, friction=self.least * (self.most / self.least) ** drawn)


@dataclass(frozen=True, kw_only=True)
class Slide(Task):
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

    num_observed, num_actions, largest = 2, 1, 1.0

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


@dataclass(frozen=True, kw_only=True)
class MuJoCo(Task):
    """One of gymnasium's tasks: HalfCheetah, Ant, Hopper, Walker2d. All its surfaces have the friction."""

    name = "mujoco"
    title: str = "HalfCheetah"

    def start(self, seed: int) -> "MuJoCoBody":
        try:
            import gymnasium
            import mujoco

            # HalfCheetah's file has a word that MuJoCo 4 warns of, on the terminal and in a file, for each body.
            mujoco.set_mju_user_warning(lambda text: None)
            environment = gymnasium.make(f"{self.title}-v5")
            mujoco.set_mju_user_warning(None)
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
        (self.num_observed,), (self.num_actions,) = environment.observation_space.shape, environment.action_space.shape
        self.largest = float(environment.action_space.high[0])

    def reset(self) -> Observation:
        seed, self._seed = self._seed, None  # the first alone: later episodes go on with its random stream
        return np.asarray(self.environment.reset(seed=seed)[0], dtype=np.float64)

    def step(self, action: npt.NDArray[np.float64]) -> Motion:
        observation, reward, terminal, truncated, _ = self.environment.step(action)
        return Motion(np.asarray(observation, dtype=np.float64), float(reward), bool(terminal), bool(truncated))
