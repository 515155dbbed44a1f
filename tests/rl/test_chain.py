import numpy as np
import pytest

from supple_lab.rl.chain import Chain, Renamed, Shuffled

CHAIN = Chain()


def test_the_best_player_earns_the_optimal_value():
    environment, discount = CHAIN.start(0), 0.9
    environment.reset()
    steps = [environment.step(CHAIN.way_on(place)) for place in range(CHAIN.num_places)]
    assert [step.terminal for step in steps] == [False] * 5 + [True]
    earned = sum(discount**time * step.reward for time, step in enumerate(steps))
    assert earned == pytest.approx(CHAIN.optimal_value(discount))
    assert steps[-1].score == 1.0


def test_optimal_value_solves_the_bellman_equation():
    discount = 0.9
    for place in range(CHAIN.num_places - 1):
        on, stay = CHAIN.optimal_value(discount, place=place + 1), CHAIN.optimal_value(discount, place=place)
        assert stay == pytest.approx(max(discount * on, discount * stay))
    assert CHAIN.optimal_value(discount, place=CHAIN.num_places - 1) == 1.0


def test_standing_still_is_cut_off_without_pay():
    environment = CHAIN.start(0)
    environment.reset()
    wrong = (CHAIN.way_on(0) + 1) % CHAIN.num_actions
    steps = [environment.step(wrong) for _ in range(environment.max_steps)]
    assert [step.over for step in steps] == [False] * 17 + [True]
    assert steps[-1].truncated
    assert (steps[-1].reward, steps[-1].score) == (0.0, 0.0)


def test_frames_tell_the_places_apart():
    environment = CHAIN.start(0)
    frames = [environment.reset()]
    frames += [environment.step(CHAIN.way_on(place)).frame for place in range(CHAIN.num_places - 1)]
    assert np.array_equal(np.concatenate(frames), np.eye(CHAIN.num_places))
    assert frames[0].shape == environment.frame_shape


def test_shuffled_rewards_are_as_many_but_not_where_they_belong():
    shuffled = Shuffled(game=CHAIN).start(0)
    actions = [CHAIN.way_on(place) for place in range(CHAIN.num_places)]
    shuffled.reset()
    steps = []
    for action in actions * 500:
        steps.append(shuffled.step(action))
        if steps[-1].over:
            shuffled.reset()
    paid = np.array([step.reward for step in steps])
    share = 1 / CHAIN.num_places
    bound = 5 * np.sqrt(share * (1 - share) / 500)
    by_place = paid.reshape(-1, CHAIN.num_places).mean(axis=0)  # where a reward in its place would be 0 0 0 0 0 1
    assert np.abs(by_place - share).max() <= bound
    assert {step.score for step in steps} == {None, 1.0}


def test_a_chain_that_pays_for_the_way_scores_the_share_that_was_gone():
    chain = Chain(num_places=4, pay="way")
    environment = chain.start(0)
    environment.reset()
    wrong = (chain.way_on(1) + 1) % chain.num_actions
    steps = [environment.step(action) for action in (chain.way_on(0), wrong, chain.way_on(1), chain.way_on(2))]
    assert [step.reward for step in steps] == [0.25, 0.0, 0.25, 0.25]
    assert (steps[-1].score, steps[-1].terminal, steps[-1].truncated) == (0.75, False, True)


def test_names_of_actions_change_with_the_iteration_and_nothing_else_does():
    game = Renamed(game=Chain(num_places=3))
    orders = [game.at(iteration, seed=5).order for iteration in range(6)]
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)
    assert len(set(orders)) > 3
    assert orders == [game.at(iteration, seed=5).order for iteration in range(6)]
    assert orders != [game.at(iteration, seed=6).order for iteration in range(6)]
    renamed, plain = game.at(2, seed=5).start(0), game.game.start(0)
    assert np.array_equal(renamed.reset(), plain.reset())
    for action in (0, 1, 2, 3):
        step, other = renamed.step(action), plain.step(orders[2][action])
        assert np.array_equal(step.frame, other.frame)
        assert step[1:] == other[1:]
