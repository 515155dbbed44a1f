"""MinAtar's games: frames of bytes that hold a game's planes, in sequence, the same for the same seed."""

import numpy as np
import pytest

from supple_lab.registry import UnknownName
from supple_lab.rl.minatar import TITLES, MinAtar

pytest.importorskip("minatar", reason="minatar is missing: pip install -e '.[control]' in a checkout")


def played(game, seed, num_steps=300):
    environment, chance = game.start(seed), np.random.default_rng(0)
    frames, steps = [environment.reset()], []
    for action in chance.integers(6, size=num_steps):
        steps.append(environment.step(int(action)))
        frames.append(environment.reset() if steps[-1].over else steps[-1].frame)
    return np.stack(frames), steps


@pytest.mark.parametrize("title", TITLES)
def test_frame_holds_the_planes_of_the_game(title):
    environment = MinAtar(titles=(title,)).start(0)
    environment.reset()
    for _ in range(20):
        frame, state = environment.step(1).frame, environment.emulator.state()
        planes = frame.reshape(10, 10, 10)
        assert np.array_equal(planes[: state.shape[2]].transpose(1, 2, 0), state)
        assert not planes[state.shape[2] :].any()


@pytest.mark.parametrize("title", TITLES)
def test_same_seed_and_actions_give_the_same_game(title):
    game = MinAtar(titles=(title,))
    (frames, steps), (again, others) = played(game, 3), played(game, 3)
    assert np.array_equal(frames, again)
    assert [step[1:] for step in steps] == [step[1:] for step in others]
    assert not np.array_equal(frames, played(game, 4)[0])


def test_scores_are_the_points_of_a_game_and_a_long_one_is_cut_off():
    _, steps = played(MinAtar(titles=("asterix",), max_steps=50), 0, 2_000)
    ends = [at for at, step in enumerate(steps) if step.over]
    starts = [0, *(at + 1 for at in ends[:-1])]
    for start, end in zip(starts, ends, strict=True):
        assert steps[end].score == sum(step.reward for step in steps[start : end + 1])
        assert end - start < 50
        assert steps[end].truncated == (end - start == 49 and not steps[end].terminal)
    assert any(steps[at].truncated for at in ends)
    assert any(steps[at].terminal for at in ends)
    assert all(step.score is None for step in steps if not step.over)


def test_games_come_one_after_another():
    game = MinAtar()
    names = [game.at(iteration, 0).start(0).emulator.game_name() for iteration in range(7)]
    assert names == [*TITLES, *TITLES[:2]]
    with pytest.raises(UnknownName, match="pong"):
        MinAtar(titles=("pong",))
