"""A player in a process of its own plays the same games, tells of errors, and does not outlive its run."""

import numpy as np
import pytest

from supple_lab.rl.atari import Atari
from supple_lab.rl.base import Game
from supple_lab.rl.chain import Chain
from supple_lab.rl.elsewhere import Elsewhere
from supple_lab.rl.player import Here, Player


def played(player: Player, *, num_steps: int, num_actions: int, seed: int) -> list:
    """All that was seen in so many steps of random play."""
    chance, seen, over = np.random.default_rng(0), [], True
    player.start(seed)
    for _ in range(num_steps):
        if over:
            seen.append(player.reset().tobytes())
        player.begin_step(int(chance.integers(num_actions)))
        step = player.finish_step()
        seen.append((step.frame.tobytes(), *step[1:]))
        over = step.over
    return seen


def assert_same_games(game: Game, *, num_steps: int, num_actions: int) -> None:
    with Here(game) as here, Elsewhere(game) as elsewhere:
        for seed in (3, 4):  # two environments, one after the other
            length = {"num_steps": num_steps, "num_actions": num_actions, "seed": seed}
            assert played(here, **length) == played(elsewhere, **length)


def test_the_chain_is_the_same_elsewhere():
    assert_same_games(Chain(), num_steps=60, num_actions=4)


def test_a_real_game_is_the_same_elsewhere():
    pytest.importorskip("ale_py")
    pytest.importorskip("cv2")
    assert_same_games(Atari(title="Breakout", max_steps=40), num_steps=100, num_actions=4)


def test_an_error_in_the_game_comes_back():
    with Elsewhere(Chain()) as player, pytest.raises(AttributeError):
        player.reset()  # before start


def test_the_process_ends_with_the_player():
    player = Elsewhere(Chain())
    player.start(0)
    player.close()
    assert player._process.returncode == 0


def test_a_game_that_died_is_told_of():
    player = Elsewhere(Chain())
    player.start(0)
    player._process.kill()
    player._process.wait()
    with pytest.raises(RuntimeError, match="ended unexpectedly"):
        player.reset()
