"""Atari games on the Arcade Learning Environment, with the preprocessing of Mnih et al. 2015, by a preset's rules."""

import re
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from supple_lab.errors import at_least, within
from supple_lab.registry import UnknownName, no_such
from supple_lab.rl.base import Environment, Frame, Game, Step
from supple_lab.rl.games import GAMES

FRAME_SKIP = 4  # emulator frames per step
FRAME_SIDE = 84
IDLE = 0  # the emulator's code for no action
MAX_SEED = 2**31  # the emulator's seeds are non-negative 32-bit integers
NEEDED = "Atari games need ale-py (it brings the games) and opencv: pip install -e '.[rl]' in a checkout"


@dataclass(frozen=True, kw_only=True)
class Preset:
    """The rules on which published DQN results differ."""

    sticky: float  # probability, at each emulator frame, of the previous frame's action instead of the chosen one
    life_loss_is_terminal: bool  # for the learner; the game goes on with the next life
    max_idle_frames: int  # a game starts with 1 to so many idle frames, or with none
    fire_at_start: bool  # each episode starts by pressing fire, for games that wait for it
    max_steps: int = 27_000  # 30 minutes of play at 60 frames per second


PresetName = Literal["sokar", "cleanrl"]
PRESETS: dict[PresetName, Preset] = {
    # Sokar et al. 2023, whose protocol the paper follows, and Dopamine.
    "sokar": Preset(sticky=0.25, life_loss_is_terminal=False, max_idle_frames=0, fire_at_start=False),
    # CleanRL's dqn_atari. Its order of operations on the pixels (maximum of colours, then size, then grey) is not kept.
    "cleanrl": Preset(sticky=0.0, life_loss_is_terminal=True, max_idle_frames=30, fire_at_start=True),
}


@dataclass(frozen=True, kw_only=True)
class Atari(Game):
    """One of the paper's 17 games under one of the presets."""

    name = "atari"
    title: str
    preset: PresetName = "sokar"  # cleanrl: a life is an episode, with idle frames before and fire pressed
    max_steps: int | None = None  # after which a game is cut off; none: the preset's
    # probability, at each emulator frame, of the previous frame's action; none: the preset's (sokar 0.25, cleanrl 0)
    sticky: float | None = field(default=None, metadata={"later": True})

    def __post_init__(self) -> None:
        if self.title not in GAMES:
            raise UnknownName(no_such("Atari game", self.title, GAMES))
        at_least(1, self, "max_steps")
        within(0, 1, self, "sticky")

    @property
    def rules(self) -> Preset:
        """The preset's, but for those that are given."""
        preset = PRESETS[self.preset]
        max_steps = preset.max_steps if self.max_steps is None else self.max_steps
        return replace(preset, max_steps=max_steps, sticky=preset.sticky if self.sticky is None else self.sticky)

    def start(self, seed: int) -> "AtariEnvironment":
        return AtariEnvironment(self.title, self.rules, seed)


class AtariEnvironment(Environment):
    """Four emulator frames per step, the brighter of the last two at each pixel, grey, 84x84; rewards cut to [-1, 1].

    Whether a game is over is what the emulator says. The number of lives does not tell: Pong, Enduro, DoubleDunk and
    IceHockey count none and read 0 from the start.
    """

    frame_shape = (FRAME_SIDE, FRAME_SIDE)

    def __init__(self, title: str, preset: Preset, seed: int) -> None:
        self.preset = preset
        self._emulator = new_emulator(title, sticky=preset.sticky, seed=seed)
        self._idle_stream = np.random.default_rng(seed)
        self._actions = self._emulator.getMinimalActionSet()
        self.num_actions = len(self._actions)
        self._last_two = np.empty((2, *self._emulator.getScreenDims()), dtype=np.uint8)
        self._brighter = np.empty_like(self._last_two[0])
        self._resize = area_resize()
        self._game_is_over = True

    def reset(self) -> Frame:
        while self._game_is_over:  # more than once if a game's first steps end it
            self._start_game()
        return self._frame()

    def step(self, action: int) -> Step:
        reward = self._advance(self._actions[action])
        self._num_steps += 1
        frame, ended = self._frame(), self._emulator.game_over(with_truncation=False)
        terminal = ended or (self.preset.life_loss_is_terminal and self._lost_a_life())
        self._game_is_over = ended or self._num_steps >= self.preset.max_steps
        if terminal and not self._game_is_over:  # now, since it can end the game, whose score belongs to this step
            self._advance(self._actions[0])  # one idle step, as CleanRL does
            self._start_episode()
        return Step(
            frame,
            reward=max(-1.0, min(1.0, reward)),
            terminal=terminal,
            truncated=self._game_is_over and not terminal,
            score=self._score if self._game_is_over else None,
        )

    def _start_game(self) -> None:
        self._emulator.reset_game()
        self._score, self._num_steps = 0.0, 0
        if self.preset.max_idle_frames:
            for _ in range(self._idle_stream.integers(1, self.preset.max_idle_frames, endpoint=True)):
                self._score += self._emulator.act(IDLE)
        for screen in self._last_two:
            self._emulator.getScreenGrayscale(screen)
        self._start_episode()

    def _start_episode(self) -> None:
        """Press fire and then the action after it, as the wrapper in CleanRL does, in games that have fire."""
        if self.preset.fire_at_start and self._actions[1].name == "FIRE":
            for action in self._actions[1:3]:
                self._advance(action)
        self._num_lives = self._emulator.lives()
        self._game_is_over = self._emulator.game_over(with_truncation=False)

    def _advance(self, action: Any) -> float:
        """Hold the action for four frames, or until the game ends; the points that it brought."""
        points = 0.0
        for frame in range(FRAME_SKIP):
            points += self._emulator.act(action)
            if frame >= FRAME_SKIP - 2:
                self._emulator.getScreenGrayscale(self._last_two[frame - FRAME_SKIP])
            if self._emulator.game_over(with_truncation=False):
                break
        self._score += points
        return points

    def _lost_a_life(self) -> bool:
        """And has another: after the last a game may go on for some steps, as WizardOfWor does, and ends itself."""
        before, self._num_lives = self._num_lives, self._emulator.lives()
        return 0 < self._num_lives < before

    def _frame(self) -> Frame:
        np.maximum(self._last_two[0], self._last_two[1], out=self._brighter)
        return self._resize(self._brighter)


def new_emulator(title: str, *, sticky: float, seed: int) -> Any:
    """An emulator with the game in it, not yet started; all its randomness is from the seed."""
    try:
        from ale_py import ALEInterface, LoggerMode, roms
    except ImportError as error:
        raise ModuleNotFoundError(NEEDED) from error
    ALEInterface.setLoggerMode(LoggerMode.Error)  # or each emulator prints a banner
    emulator = ALEInterface()
    emulator.setInt("random_seed", seed % MAX_SEED)
    emulator.setFloat("repeat_action_probability", sticky)
    rom = roms.get_rom_path(re.sub(r"(?<!^)(?=[A-Z])", "_", title).lower())  # MsPacman is ms_pacman
    if rom is None:
        raise UnknownName(no_such("Atari game", title, GAMES))
    emulator.loadROM(rom)
    return emulator


def area_resize() -> Any:
    """A function from an emulator's grey screen to an 84x84 frame, each pixel the mean of the area it covers."""
    try:
        import cv2
    except ImportError as error:
        raise ModuleNotFoundError(NEEDED) from error
    cv2.setNumThreads(1)  # a screen is too small to share between threads
    return lambda screen: cv2.resize(screen, (FRAME_SIDE, FRAME_SIDE), interpolation=cv2.INTER_AREA)
