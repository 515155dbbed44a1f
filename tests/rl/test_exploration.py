import pytest

from supple_lab.rl.dqn_problem import Exploration


def test_epsilon_is_one_then_falls_linearly_to_the_floor():
    exploration = Exploration(num_random_steps=20_000, num_decay_steps=250_000, floor=0.01)
    assert [exploration.epsilon(step) for step in (0, 19_999, 20_000)] == [1.0, 1.0, 1.0]
    assert exploration.epsilon(20_000 + 125_000) == pytest.approx((1 + 0.01) / 2)
    assert exploration.epsilon(270_000) == pytest.approx(0.01)
    assert exploration.epsilon(2_500_000) == pytest.approx(0.01)


@pytest.mark.parametrize("fields", [{"floor": 1.5}, {"num_random_steps": -1}, {"num_decay_steps": 0}])
def test_impossible_schedules_are_refused(fields):
    with pytest.raises(ValueError, match="Exploration"):
        Exploration(**fields)
