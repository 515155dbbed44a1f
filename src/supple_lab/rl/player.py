"""Player: one game after another, each step begun and finished, so that other work fits between the two."""

from abc import ABC, abstractmethod
from types import TracebackType

from supple_lab.rl.base import Environment, Frame, Game, Step


class Player(ABC):
    """What a run plays its games with; where it plays them changes no number."""

    @abstractmethod
    def start(self, seed: int) -> None:
        """Begin with a new environment, which knows nothing of earlier ones."""

    @abstractmethod
    def reset(self) -> Frame:
        """The first frame of an episode."""

    @abstractmethod
    def begin_step(self, action: int) -> None:
        """Have the action taken."""

    @abstractmethod
    def finish_step(self) -> Step:
        """What it led to."""

    def close(self) -> None:  # noqa: B027
        """The last game is over."""

    def __enter__(self) -> "Player":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Here(Player):
    """In this thread: a step is taken when it is finished."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self._environment: Environment | None = None
        self._action = 0

    def start(self, seed: int) -> None:
        self._environment = self.game.start(seed)

    def reset(self) -> Frame:
        return self._started.reset()

    def begin_step(self, action: int) -> None:
        self._action = action

    def finish_step(self) -> Step:
        return self._started.step(self._action)

    @property
    def _started(self) -> Environment:
        assert self._environment is not None, "start comes before the first episode"
        return self._environment
