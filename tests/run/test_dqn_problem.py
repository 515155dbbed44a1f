"""DQN as a problem: the paper's defaults, and what makes no sense refused before anything is written."""

import sys
from dataclasses import replace

import pytest

from small_games import ON_CHAIN, atari_spec, chain_spec
from supple.methods import DASH, FullReset, ReDo, ShrinkPerturb, UseCReLU
from supple_lab.models.cnn import CNN
from supple_lab.models.mlp import MLP
from supple_lab.models.nature_dqn import NatureDQN
from supple_lab.rl.chain import Chain, Shuffled
from supple_lab.rl.dqn_problem import DQN
from supple_lab.run.check import check_suitable, game_info, remarks_on
from supple_lab.scenarios.base import Unsuitable


@pytest.fixture
def no_ale(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    game_info.cache_clear()
    yield
    game_info.cache_clear()


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (lambda: chain_spec(ReDo(), boundary_period=10_000), "would not act. Use `supple play` with a smaller --b"),
        (lambda: chain_spec(ReDo(every=10_000)), "every 10,000 updates.*not act.* smaller --method.every"),
        (lambda: chain_spec(FullReset(), boundary_period=20), "full_reset would empty"),
        (lambda: chain_spec(FullReset(every=20)), "full_reset would empty.*a --method.every of many times 25 updates"),
        (lambda: replace(chain_spec(), model=NatureDQN()), "at least 36x36"),
        (lambda: replace(chain_spec(UseCReLU()), model=MLP(width=63, num_hidden=2, narrowing="halved")), "cannot be"),
    ],
)
def test_what_would_mean_nothing_is_refused_with_the_reason(spec, reason):
    with pytest.raises(Unsuitable, match=reason):
        check_suitable(spec(), device="cpu")


def test_networks_that_do_not_rescale_bytes_are_refused_for_atari():
    pytest.importorskip("ale_py")
    pytest.importorskip("cv2")
    atari = atari_spec()
    shuffled = replace(atari, problem=replace(atari.problem, game=Shuffled(game=atari.problem.game)))
    for spec in (replace(one, model=model) for model in (MLP(), CNN()) for one in (atari, shuffled)):
        with pytest.raises(Unsuitable, match="Choose nature_dqn"):
            check_suitable(spec, device="cpu")
    check_suitable(shuffled, device="cpu")


@pytest.mark.usefixtures("no_ale")
def test_atari_without_ale_py_is_refused_with_the_way_to_install_it():
    with pytest.raises(Unsuitable, match=r"pip install -e '\.\[rl\]' in a checkout"):
        check_suitable(atari_spec(), device="cpu")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("replay_ratio", 0.0),
        ("replay_ratio", 1e308),
        ("num_random_steps", 0),
        ("num_decay_steps", 0),
        ("act_mode", "test"),
        ("discount", 1.5),
        ("epsilon_floor", 2.0),
        ("capacity", ON_CHAIN.num_stacked + 1),
        ("num_stacked", 257),
        ("boundary_period", 0),
    ],
)
def test_a_wrong_field_is_named(field, value):
    with pytest.raises(ValueError, match=f"DQN.{field}"):
        replace(ON_CHAIN, **{field: value})


def test_defaults_are_the_papers():
    paper = DQN(game=Chain())
    assert (paper.num_iterations, paper.steps_per_iteration, paper.replay_ratio) == (10, 250_000, 1.0)
    assert paper.num_updates == 2_480_000
    assert (paper.evaluation_steps, paper.evaluation_epsilon) == (125_000, 0.001)  # the steps are Dopamine's
    assert (paper.batch_size, paper.discount, paper.target_period, paper.capacity) == (32, 0.99, 2_000, 1_000_000)


def test_methods_that_change_the_network_as_often_as_it_is_copied_are_remarked_on():
    """Full reset is refused there, and ReDo, which recycles units, is meant to act so often."""
    way_out = "`supple play` with a --boundary-period of many times 50 updates"
    often = replace(ON_CHAIN, target_period=25, replay_ratio=2.0, boundary_period=50)
    seldom = replace(often, boundary_period=51)
    for method in (DASH(), ShrinkPerturb()):
        (told,) = remarks_on(often, method)
        assert method.name in told
        assert way_out in told
        assert not remarks_on(seldom, method)
    assert not remarks_on(often, ReDo())
    with pytest.raises(Unsuitable, match=way_out):
        check_suitable(replace(chain_spec(FullReset()), problem=often), device="cpu")
    assert not remarks_on(seldom, FullReset())


def test_epsilon_is_one_then_falls_linearly_to_the_floor():
    paper = DQN(game=Chain())
    assert [paper.epsilon(step) for step in (0, 19_999, 20_000)] == [1.0, 1.0, 1.0]
    assert paper.epsilon(20_000 + 125_000) == pytest.approx((1 + 0.01) / 2)
    assert [paper.epsilon(step) for step in (270_000, 2_500_000)] == pytest.approx([0.01, 0.01])
