import math
import sys
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from small_games import needs_ale
from supple_lab.registry import UnknownName
from supple_lab.rl import atari
from supple_lab.rl.atari import PRESETS, Atari, AtariEnvironment, new_emulator
from supple_lab.rl.games import GAMES

SOKAR, CLEANRL = PRESETS["sokar"], PRESETS["cleanrl"]

# Sizes of the minimal action sets, in the order of the paper.
NUM_ACTIONS = dict(zip(GAMES, (18, 6, 6, 6, 18, 9, 9, 9, 10, 18, 18, 9, 6, 18, 18, 4, 18), strict=True))


def play(environment, actions) -> list:
    """The first frame and every step, going on to the next episode where one is over."""
    seen = [environment.reset()]
    for action in actions:
        step = environment.step(action)
        seen.append(step)
        if step.over:
            seen.append(environment.reset())
    return seen


def same(ones, others) -> bool:
    return len(ones) == len(others) and all(
        np.array_equal(one, other)
        if isinstance(one, np.ndarray)
        else np.array_equal(one.frame, other.frame) and one[1:] == other[1:]
        for one, other in zip(ones, others, strict=True)
    )


def random_actions(number: int, num_actions: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(num_actions, size=number).tolist()


@needs_ale
@pytest.mark.parametrize("title", GAMES)
def test_every_game_starts_and_goes_on(title):
    environment = Atari(title=title).start(seed=1)
    assert environment.num_actions == NUM_ACTIONS[title]
    first, *steps = play(environment, random_actions(40, environment.num_actions))
    assert first.shape == environment.frame_shape
    assert first.dtype == np.uint8
    assert first.std() > 0
    assert not any(step.over for step in steps)  # though Pong, Enduro, DoubleDunk and IceHockey read 0 lives
    assert any(not np.array_equal(step.frame, first) for step in steps)


@needs_ale
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("title", ["Breakout", "Qbert"])
def test_seed_and_actions_decide_everything(title, preset):
    game = Atari(title=title, preset=preset)
    actions = random_actions(150, NUM_ACTIONS[title])
    assert same(play(game.start(3), actions), play(game.start(3), actions))


@needs_ale
@pytest.mark.parametrize("preset", PRESETS)  # sticky actions, and the number of idle frames, are the seed's
def test_another_seed_plays_another_game(preset):
    game = Atari(title="Breakout", preset=preset)
    actions = random_actions(100, 4)
    assert not same(play(game.start(3), actions), play(game.start(4), actions))


@needs_ale
@pytest.mark.parametrize("title", ["MsPacman", "Pong"])
def test_steps_equal_the_emulators_own(title):
    import cv2

    environment = AtariEnvironment(title, SOKAR, seed=5)
    emulator = new_emulator(title, sticky=0.25, seed=5)
    emulator.reset_game()
    codes = emulator.getMinimalActionSet()
    environment.reset()
    total = 0
    for action in random_actions(200, len(codes)):
        screens, points = [], 0
        for _ in range(4):
            points += emulator.act(codes[action])
            screens.append(emulator.getScreenGrayscale())
        total += points
        step = environment.step(action)
        if step.over:
            break
        brighter = np.maximum(screens[2], screens[3])
        assert np.array_equal(step.frame, cv2.resize(brighter, (84, 84), interpolation=cv2.INTER_AREA))
        assert step.reward == np.clip(points, -1, 1)
    assert total != 0  # or clipping has not been seen


@needs_ale
def test_reward_is_clipped_and_score_is_not():
    steps = play_one_game(AtariEnvironment("MsPacman", replace(SOKAR, max_steps=200), seed=0))
    rewards = [step.reward for step in steps]
    assert set(rewards) == {0.0, 1.0}
    assert steps[-1].score >= 10 * sum(rewards)  # a dot is worth 10 points, everything else more
    assert all(step.score is None for step in steps[:-1])


def play_one_game(environment) -> list:
    environment.reset()
    steps = []
    for action in random_actions(100_000, environment.num_actions):
        steps.append(environment.step(action))
        if steps[-1].score is not None:
            return steps
        if steps[-1].over:
            environment.reset()
    raise AssertionError("no game ended")


@needs_ale
def test_cap_truncates_and_a_new_game_follows():
    environment = AtariEnvironment("Pong", replace(SOKAR, max_steps=25), seed=0)
    for _ in range(2):
        environment.reset()
        steps = [environment.step(0) for _ in range(25)]
        assert [step.over for step in steps] == [False] * 24 + [True]
        assert (steps[-1].terminal, steps[-1].truncated) == (False, True)
        assert steps[-1].score is not None


@needs_ale
def test_game_over_is_terminal_and_the_next_game_starts_anew():
    environment = AtariEnvironment("Breakout", SOKAR, seed=0)
    last = play_one_game(environment)[-1]
    assert (last.terminal, last.truncated) == (True, False)
    environment.reset()
    assert environment._emulator.lives() == 5


@needs_ale
def test_lives_end_an_episode_but_not_the_game_in_the_cleanrl_preset():
    environment = AtariEnvironment("Breakout", CLEANRL, seed=0)
    steps = play_one_game(environment)
    ends = [step for step in steps if step.over]
    assert [step.terminal for step in ends] == [True] * 5  # one for each life
    assert [step.score is None for step in ends] == [True] * 4 + [False]
    assert sum(step.reward for step in steps) == steps[-1].score  # the bricks of the lowest rows are worth one point


class EndsSoonAfterALife:
    """An emulator whose game pays 100 in its first frame, loses a life in frame 8, and is over two frames later."""

    class Action(NamedTuple):
        name: str

    num_games = num_frames = 0

    def getMinimalActionSet(self):
        return [self.Action("NOOP"), self.Action("UP")]

    def getScreenDims(self):
        return 210, 160

    def getScreenGrayscale(self, screen):
        screen[:] = self.num_frames

    def reset_game(self):
        self.num_games, self.num_frames = self.num_games + 1, 0

    def act(self, action):
        self.num_frames += 1
        return 100 if self.num_frames == 1 else 0

    def lives(self):
        return 2 if self.num_frames < 8 else 1

    def game_over(self, *, with_truncation):
        return self.num_frames >= 10


@needs_ale
def test_a_game_that_the_idle_step_after_a_lost_life_ends_tells_its_score(monkeypatch):
    emulator = EndsSoonAfterALife()
    monkeypatch.setattr(atari, "new_emulator", lambda *_, **__: emulator)
    environment = AtariEnvironment("Pong", replace(CLEANRL, max_idle_frames=0), seed=0)
    environment.reset()
    for game in (1, 2):
        first, last = environment.step(0), environment.step(0)
        assert (first.score, last.score) == (None, 100.0)
        assert (last.terminal, last.truncated) == (True, False)
        assert last.frame.max() == 8  # what the action led to, not the idle step
        assert emulator.num_games == game
        environment.reset()


class EndsAfterItsLastLife:
    """An emulator whose game has two lives, the last of them lost in frame 12, four frames before the game is over."""

    Action, num_frames = EndsSoonAfterALife.Action, 0
    getMinimalActionSet = EndsSoonAfterALife.getMinimalActionSet
    getScreenDims, getScreenGrayscale = EndsSoonAfterALife.getScreenDims, EndsSoonAfterALife.getScreenGrayscale

    def reset_game(self):
        self.num_frames = 0

    def act(self, action):
        self.num_frames += 1
        return 10

    def lives(self):
        return 2 if self.num_frames < 4 else 1 if self.num_frames < 12 else 0

    def game_over(self, *, with_truncation):
        return self.num_frames >= 16


@needs_ale
def test_the_last_life_ends_with_the_game_in_the_cleanrl_preset(monkeypatch):
    """CleanRL's rule is 0 < lives < lives before: WizardOfWor goes on for some steps at 0."""
    monkeypatch.setattr(atari, "new_emulator", lambda *_, **__: EndsAfterItsLastLife())
    environment = AtariEnvironment("Pong", replace(CLEANRL, max_idle_frames=0), seed=0)
    environment.reset()
    lost_a_life = environment.step(0)  # and an idle step follows, to frame 8
    environment.reset()
    lost_the_last, over = environment.step(0), environment.step(0)
    assert [step.terminal for step in (lost_a_life, lost_the_last, over)] == [True, False, True]
    assert [step.score for step in (lost_a_life, lost_the_last, over)] == [None, None, 160.0]


@needs_ale
def test_lives_do_not_end_an_episode_in_the_sokar_preset():
    steps = play_one_game(AtariEnvironment("Breakout", SOKAR, seed=0))
    assert [step.over for step in steps[:-1]] == [False] * (len(steps) - 1)


@needs_ale
@pytest.mark.parametrize("sticky", [0.0, SOKAR.sticky])
def test_action_sticks_as_often_as_said(sticky):
    """Breakout's paddle, at rest, goes its full way in a step unless idleness is repeated in the first frame."""
    environment = AtariEnvironment("Breakout", replace(SOKAR, sticky=sticky), seed=2)
    environment.reset()
    idle, right, left = 0, 2, 3
    ways = []
    for _ in range(250):
        start = paddle(environment)
        environment.step(left if start > 120 else right)
        ways.append(abs(paddle(environment) - start))
        for _ in range(2):
            environment.step(idle)
    at_once = np.mean(np.array(ways) >= 11)  # 11 or 12, by where it started
    assert abs(at_once - (1 - sticky)) <= 5 * math.sqrt(sticky * (1 - sticky) / len(ways))
    # Each frame has its own chance to stick: to be late by three, which shows no way at all, is rare.
    expected = len(ways) * sticky**3
    assert ways.count(0) <= expected + 5 * math.sqrt(expected)


def paddle(environment) -> int:
    return int(environment._emulator.getRAM()[72])


def test_unknown_game_and_preset_are_refused():
    with pytest.raises(UnknownName, match="no Atari game named 'Pongg'. Did you mean 'Pong'"):
        Atari(title="Pongg")
    with pytest.raises(ValueError, match="Atari.preset is one of sokar, cleanrl; got 'dopamine'"):
        Atari(title="Pong", preset="dopamine")


@pytest.mark.parametrize("package", ["ale_py", "cv2"])
def test_missing_package_is_named_with_the_way_to_install_it(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install -e '\.\[rl\]' in a checkout"):
        Atari(title="Pong").start(0)
