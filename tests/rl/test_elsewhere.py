"""A player in a process of its own plays the same games, tells of errors, and does not outlive its run."""

import os
import sys
from multiprocessing.connection import Connection

import numpy as np
import pytest

from supple_lab import lookup
from supple_lab.rl.atari import Atari
from supple_lab.rl.base import Game
from supple_lab.rl.chain import Chain
from supple_lab.rl.elsewhere import Elsewhere, GameDied
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
    with pytest.raises(GameDied, match="ended unexpectedly"):
        player.reset()


def test_a_game_that_died_in_the_middle_of_an_answer_is_told_of():
    player = Elsewhere(Chain())
    player.start(0)
    player._process.kill()
    player._process.wait()
    ours, theirs = os.pipe()
    os.write(theirs, b"\x00\x00\x00\x10half")  # of sixteen bytes
    os.close(theirs)
    player._answers = Connection(ours, writable=False)
    with pytest.raises(GameDied):
        player.finish_step()


OWN_GAME = """
from supple_lab.rl.base import Game
from supple_lab.rl.chain import Chain


class Longer(Game):
    name = "longer_in_test"

    def start(self, seed):
        return Chain(num_places=9).start(seed)
"""


@pytest.fixture
def own_game(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(OWN_GAME)
    monkeypatch.setenv(lookup.PLUGIN, "")  # so that it is put back to none
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, lookup.PLUGIN_MODULE, None)
    lookup.use_plugin(str(tmp_path / "mine.py"))
    lookup.import_plugin()
    yield sys.modules[lookup.PLUGIN_MODULE].Longer()
    lookup._import_plugin.cache_clear()


def test_a_game_of_ones_own_is_played_elsewhere(own_game):
    assert_same_games(own_game, num_steps=20, num_actions=4)


def test_a_game_that_cannot_be_had_elsewhere_is_told_of_and_not_taken_for_a_death(own_game, monkeypatch):
    monkeypatch.delenv(lookup.PLUGIN)
    with Elsewhere(own_game) as player, pytest.raises(ModuleNotFoundError, match=lookup.PLUGIN_MODULE):
        player.start(0)
