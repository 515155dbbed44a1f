"""The PPO run: it learns a task, changes its friction, and a resume changes nothing."""

from contextlib import nullcontext
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from torch import nn

from replayed import compute_by_torch_alone, replay_from_now_on
from slowly import slow
from small_runs import stopped
from supple.layers import AID, AIDGauss, LeakyDropout, NormAID, SmoothLeaky
from supple.methods import CBP, DASH, FullReset, L2Init, ReDo, ShrinkPerturb
from supple.methods.activations import UseAID
from supple.methods.base import Method
from supple.methods.vanilla import Vanilla
from supple_lab.models.cnn import CNN
from supple_lab.models.mlp import MLP
from supple_lab.optimizer import Adam
from supple_lab.rl.chain import Chain, Renamed
from supple_lab.rl.control import MuJoCo, Play, Slide
from supple_lab.rl.off_policy_problem import OffPolicy
from supple_lab.rl.ppo_problem import PPO
from supple_lab.run import ppo
from supple_lab.run.check import check_suitable
from supple_lab.run.recorder import Journal
from supple_lab.run.run import execute
from supple_lab.scenarios.base import Unsuitable
from supple_lab.spec import RunSpec
from supple_lab.store.store import Store

SMALL = PPO(
    task=Slide(num_steps=20),
    num_stages=3,
    segments_per_stage=2,
    rollouts_per_segment=2,
    num_bodies=4,
    steps_per_rollout=25,  # so that episodes end within a rollout and are cut off by a segment
    epochs=2,
    batch_size=32,
    num_evaluated=2,
)
SMALL_MODEL = MLP(width=16, num_hidden=2)
needs_mujoco = pytest.mark.skipif(
    not all(map(find_spec, ("mujoco", "gymnasium"))),
    reason="mujoco is missing: pip install -e '.[control]' in a checkout",
)


def small_spec(method: Method | None = None, **changed) -> RunSpec:
    return RunSpec(
        problem=replace(SMALL, **changed),
        model=SMALL_MODEL,
        method=method or Vanilla(),
        optimizer=Adam(learning_rate=3e-3),
        seed=0,
    )


def records_of(folder, spec, **options) -> list[dict]:
    store = Store.create(folder)
    assert execute(spec, store, **options) == "done", store.folder(spec).status().get("reason")
    return [*store.folder(spec).stage_log.read(), *store.folder(spec).epoch_log.read()]


def test_run_learns_the_task(tmp_path):
    longer = {"num_stages": 1, "segments_per_stage": 3, "rollouts_per_segment": 4, "num_evaluated": 20}
    spec = small_spec(**longer, num_bodies=8, steps_per_rollout=50, epochs=5)
    spec = replace(spec, optimizer=Adam(learning_rate=1e-2))
    record, *epochs = records_of(tmp_path, spec)
    assert epochs[0]["train_score"] < 14
    assert record["score"] > 16  # of 20; it starts at distance 0.5 on average


CHAIN = Play(game=Renamed(game=Chain(pay="way")))  # its actions change their names at each stage


def test_run_learns_a_game_and_then_another(tmp_path):
    longer = {"segments_per_stage": 4, "rollouts_per_segment": 4, "num_bodies": 8, "steps_per_rollout": 64}
    spec = small_spec(task=CHAIN, num_stages=2, epochs=5, entropy_weight=0.01, **longer)
    *stages, first, _, _, _, _, _, _, _ = records_of(tmp_path, spec)
    assert first["train_score"] < 0.8
    assert [record["score"] for record in stages] == pytest.approx([1.0, 1.0])
    assert "friction" not in stages[0]


def test_entropy_is_rewarded(tmp_path):
    bold, usual = (
        records_of(tmp_path / str(weight), small_spec(task=CHAIN, entropy_weight=weight)) for weight in (10.0, 0.0)
    )
    assert bold[2]["train_score"] < usual[2]["train_score"]  # of actions that are nearly drawn at random


@pytest.mark.parametrize("task", [SMALL.task, CHAIN], ids=lambda task: task.name)
@pytest.mark.parametrize("epochs", [1, 2])  # in the last step before a rollout, or earlier
def test_run_that_diverges_ends_as_such(tmp_path, task, epochs):
    spec = replace(small_spec(task=task, epochs=epochs, batch_size=100), optimizer=Adam(learning_rate=1e30))
    store = Store.create(tmp_path)
    assert execute(spec, store) == "diverged", store.folder(spec).status().get("reason")


METHODS = [UseAID(relu_prob=0.9), CBP(replacement_rate=0.05, maturity=3), FullReset()]
METHODS += map(slow, (Vanilla(), L2Init(strength=1e-3), ReDo(threshold=0.5), ShrinkPerturb(), DASH()))


@pytest.mark.parametrize("task", [SMALL.task, CHAIN], ids=lambda task: task.name)
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_resumed_run_equals_unbroken_run(tmp_path, monkeypatch, method, task):
    spec = small_spec(method, task=task)
    unbroken = records_of(tmp_path / "unbroken", spec)
    for num_updates in (3, 4, 5):  # in the midst of segments 2 and 3, and of what was done again
        with stopped(ppo, "learn", after=num_updates):
            execute(spec, Store.create(tmp_path / "broken"), checkpoint_seconds=0.0)
    resumed = []
    restoring = Journal.restoring
    monkeypatch.setattr(Journal, "restoring", lambda journal: resumed.append(True) or restoring(journal))
    assert records_of(tmp_path / "broken", spec) == unbroken
    assert resumed


def num_replayed(tmp_path, monkeypatch, spec) -> int:
    """How many graphs a run records, as a GPU has it; they change no number. test_agents_gpu.py looks at true ones."""
    compute_by_torch_alone(monkeypatch)
    usual = records_of(tmp_path / "usual", spec)
    made = replay_from_now_on(monkeypatch)
    assert records_of(tmp_path / "replayed", spec) == usual
    assert "not_captured" not in Store.create(tmp_path / "replayed").folder(spec).status()
    return len(made)


@pytest.mark.parametrize("task", [SMALL.task, CHAIN], ids=lambda task: task.name)
@pytest.mark.parametrize(
    ("method", "masks"),
    [(UseAID(relu_prob=0.9), "held"), (UseAID(relu_prob=0.9), "fresh"), (METHODS[1], "held"), (METHODS[2], "held")],
    ids=lambda value: getattr(value, "name", value),
)
def test_replayed_work_changes_no_number(tmp_path, monkeypatch, method, masks, task):
    spec = small_spec(method, masks=masks, task=task, entropy_weight=0.01, num_stages=2)
    # acting, with and without chance, and minibatches of two sizes
    assert num_replayed(tmp_path, monkeypatch, spec) == 4


def test_friction_changes_with_the_stage_alike_for_all_methods(tmp_path):
    frictions = [
        [record["friction"] for record in records_of(tmp_path / method.name, small_spec(method))[:3]]
        for method in (Vanilla(), UseAID())
    ]
    assert frictions[0] == frictions[1]
    assert frictions[0][0] == 1.0
    assert len(set(frictions[0])) == 3
    assert all(0.1 <= friction <= 2.0 for friction in frictions[0])


@pytest.mark.parametrize("masks", ["held", "fresh"])
def test_ratio_starts_at_one_if_masks_are_held(masks):
    agent = ppo.Agent(
        small_spec(UseAID(relu_prob=0.7), masks=masks),
        replace(SMALL, masks=masks),
        torch.device("cpu"),
        torch.Generator(),
    )
    cursor = ppo.PPOCursor()
    rollout = ppo.Bodies(agent, SMALL.task, seed=0, segment=0).play(cursor)
    agent.network.train()
    order = torch.randperm(len(rollout.x))
    outputs, _ = agent.forward(rollout.x[order], rollout.samples[order])
    ratio = (agent.network.log_prob_of(rollout.action[order], outputs) - rollout.log_prob[order]).exp()
    if masks == "held":
        torch.testing.assert_close(ratio, torch.ones(100), rtol=0, atol=1e-5)
    else:
        assert ratio.std() > 0.01
    assert cursor.num_samples == 100


def test_advantages_are_those_computed_one_by_one():
    agent = ppo.Agent(small_spec(), SMALL, torch.device("cpu"), torch.Generator())
    bodies, rewards = ppo.Bodies(agent, SMALL.task, seed=0, segment=0), []
    pay = bodies.pay
    bodies.pay = lambda motions, cursor: rewards.append(pay(motions, cursor)) or rewards[-1]
    rollout = bodies.play(ppo.PPOCursor())
    advantage, worth, reward = rollout.advantage.view(25, 4), rollout.worth.view(25, 4), torch.stack(rewards)
    values = worth - advantage
    discount, decay = SMALL.discount, SMALL.decay
    for step in (*range(19), *range(20, 24)):  # the 20th step ends the episode
        surprise = reward[step] + discount * values[step + 1] - values[step]
        later = advantage[step + 1]
        torch.testing.assert_close(advantage[step], surprise + discount * decay * later)
    assert not torch.allclose(advantage[19], reward[19] - values[19])  # cut off: its value goes on


def network_of(task, model=SMALL_MODEL, **changed) -> ppo.ActorCritic:
    spec = replace(small_spec(task=task, **changed), model=model)
    return ppo.Agent(spec, spec.problem, torch.device("cpu"), torch.Generator()).network


def test_actor_can_begin_with_small_outputs():
    x, model = torch.ones(1, 2), MLP(width=16, num_hidden=2, init="torch")  # with biases
    outputs, values = zip(*(network_of(SMALL.task, model, actor_scale=scale)(x) for scale in (1.0, 0.01)), strict=True)
    assert outputs[0].abs() > 0.01
    torch.testing.assert_close(outputs[1], 0.01 * outputs[0])
    assert torch.equal(*values)


def test_activation_of_the_method_can_be_the_critics_alone():
    spec = small_spec(UseAID(relu_prob=0.7), activation_in="critic")
    network = ppo.Agent(spec, spec.problem, torch.device("cpu"), torch.Generator()).network
    kinds = [{type(module) for module in part.modules()} for part in (network.actor, network.critic)]
    assert [AID in kind for kind in kinds] == [False, True]
    assert [nn.ReLU in kind for kind in kinds] == [True, False]
    for ours, plain in zip(network.actor.parameters(), network_of(SMALL.task).actor.parameters(), strict=True):
        assert torch.equal(ours, plain)


def test_policy_of_forces_is_gaussian():
    network, outputs = network_of(SMALL.task), torch.linspace(-2.0, 2.0, 27).view(9, 3)
    network.log_std = torch.nn.Parameter(torch.tensor([-0.5, 0.0, 1.0]))
    std = network.log_std.detach().exp()
    policy = torch.distributions.Normal(outputs, std)
    noise = torch.randn(9, 3, generator=torch.Generator().manual_seed(0))
    action = network.drawn(outputs, noise)
    torch.testing.assert_close(action, outputs + std * noise)
    torch.testing.assert_close(network.log_prob_of(action, outputs), policy.log_prob(action).sum(1))
    torch.testing.assert_close(network.mean_entropy(outputs), policy.entropy().sum(1).mean())


def test_policy_of_choices_is_categorical():
    network, outputs = network_of(CHAIN), torch.tensor([[0.3, -1.0, 0.0, 2.0]]).repeat(20_000, 1)
    policy = torch.distributions.Categorical(logits=outputs)
    action = network.drawn(outputs, torch.rand(20_000, generator=torch.Generator().manual_seed(0)))
    shares, probs = action.bincount(minlength=4) / 20_000, policy.probs[0]
    assert ((shares - probs).abs() < 5 * (probs * (1 - probs) / 20_000).sqrt()).all()
    torch.testing.assert_close(network.log_prob_of(action, outputs), policy.log_prob(action))
    torch.testing.assert_close(network.mean_entropy(outputs), policy.entropy().mean())
    assert network.drawn(outputs * torch.nan, torch.rand(20_000)).max() == 0  # the loss will tell


def test_running_statistics_are_those_of_all_rows():
    rows = np.random.default_rng(0).normal(3.0, 2.0, size=(500, 3))
    running = ppo.Running((3,))
    for part in np.split(rows, 10):
        running.see_(part)
    np.testing.assert_allclose(running.mean, rows.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(running.variance, rows.var(axis=0), rtol=1e-4)


@pytest.mark.parametrize(
    ("activation", "holds"),
    [
        (AIDGauss(), False),
        (nn.RReLU(), False),
        (NormAID(), True),
        (LeakyDropout(), True),
        (SmoothLeaky(), True),
        (nn.Sequential(nn.LazyBatchNorm1d(affine=False, track_running_stats=False), nn.ReLU()), True),
    ],
    ids=lambda value: str(value),
)
def test_only_what_cannot_be_held_is_refused(monkeypatch, activation, holds):
    monkeypatch.setattr(Vanilla, "activation", lambda method: activation)
    check_suitable(small_spec(masks="fresh"), device="cpu")
    with nullcontext() if holds else pytest.raises(Unsuitable, match="cannot be held per sample.*--only SAC"):
        check_suitable(small_spec(), device="cpu")


@pytest.mark.parametrize("task", [SMALL.task, CHAIN], ids=lambda task: task.name)
def test_loss_of_methods_is_that_of_training(monkeypatch, task):
    """DASH takes gradients of it at a boundary; without the policy's, it would shrink the whole actor."""
    problem = replace(SMALL, task=task, entropy_weight=0.01)
    agent = ppo.Agent(small_spec(task=task), problem, torch.device("cpu"), torch.Generator())
    rollout, losses = ppo.Bodies(agent, task, seed=0, segment=0).play(ppo.PPOCursor()), []
    monkeypatch.setattr(ppo, "step_by_", lambda loss, plasticity: losses.append(loss))
    for size in (100, 33):  # three batches, and one of a single sample, which training passes over, too
        shown = ppo.LastRollout(rollout, size)
        agent.network.actor[1].bias.data += 0.1  # so that ratios are not 1
        for part, batch in zip(zip(*(column.split(size) for column in rollout), strict=True), shown, strict=False):
            agent._learn(*part)
            torch.testing.assert_close(agent.plasticity.learner.loss(batch), losses[-1])
        assert len(list(shown)) == 100 // size


def test_what_cannot_be_run_is_refused():
    with pytest.raises(Unsuitable, match="cnn reads images"):
        check_suitable(replace(small_spec(), model=CNN()), device="cpu")
    with pytest.raises(Unsuitable, match="sac gives forces, and a game takes one of its actions"):
        check_suitable(replace(small_spec(), problem=OffPolicy(task=CHAIN)), device="cpu")
    with pytest.raises(ValueError, match=r"Slide\.least must be at most its most, 2\.0; got 3\.0"):
        Slide(least=3.0)


@needs_mujoco
def test_warnings_are_heard_again_if_a_task_cannot_be_made(monkeypatch):
    import mujoco

    handlers = []
    monkeypatch.setattr(mujoco, "set_mju_user_warning", handlers.append)
    with pytest.raises(Exception, match="Unicycle"):
        MuJoCo(title="Unicycle").start(0)
    assert handlers[-1] is None


@needs_mujoco
def test_friction_of_mujoco_is_that_of_the_simulator(tmp_path):
    slippery, usual = MuJoCo(friction=0.5).start(0), MuJoCo().start(0)
    models = [body.environment.unwrapped.model for body in (slippery, usual)]
    np.testing.assert_allclose(models[0].geom_friction[:, 0], 0.5 * models[1].geom_friction[:, 0])
    assert np.array_equal(models[0].geom_friction[:, 1:], models[1].geom_friction[:, 1:])
    for body in (slippery, usual):
        body.reset()
    push = np.full(usual.num_actions, usual.largest)
    paths = [np.stack([body.step(push).observation for _ in range(30)]) for body in (slippery, usual)]
    assert not np.allclose(*paths)


def earned_by_standing_still(task: MuJoCo) -> tuple[float, int]:
    """The return of an episode without any force, and its length."""
    body, rewards, over = task.start(0), [], False
    body.reset()
    while not over:
        motion = body.step(np.zeros(body.num_actions))
        rewards.append(motion.reward)
        over = motion.terminal or motion.truncated
    return sum(rewards), len(rewards)


@needs_mujoco
def test_standing_still_earns_nothing_if_progress_alone_is_paid():
    paid, _ = earned_by_standing_still(MuJoCo(title="Ant"))
    assert paid > 900
    for title in ("Ant", "Hopper", "Walker2d"):  # the last two fall over without force
        earned, length = earned_by_standing_still(MuJoCo(title=title, progress_alone=True))
        assert abs(earned) < 50
        assert length == 1_000


@needs_mujoco
def test_in_free_flight_a_cheetah_gains_no_speed_if_it_is_integrated_well():
    """Its forces are all between its own limbs; by Euler's rule it gains a metre a second in five."""
    import mujoco

    def gained(task):
        body, chance, speeds = task.start(0), np.random.default_rng(0), []
        body.reset()
        model, data = body.environment.unwrapped.model, body.environment.unwrapped.data
        data.qpos[1] = 1_000.0  # metres above the ground
        for _ in range(100):
            body.step(chance.choice([-1.0, 1.0], body.num_actions))
            mujoco.mj_subtreeVel(model, data)
            speeds.append(data.subtree_linvel[1, 0])
        return max(speeds) - min(speeds)

    assert gained(MuJoCo()) > 0.5
    assert gained(MuJoCo(runge_kutta=True)) < 0.1


def test_progress_alone_is_refused_for_a_task_that_pays_nothing_else():
    with pytest.raises(ValueError, match=r"progress_alone is for Ant, Hopper, Walker2d.*leave it out for HalfCheetah"):
        MuJoCo(progress_alone=True)


@needs_mujoco
def test_run_on_mujoco_resumes_bit_for_bit(tmp_path):
    spec = small_spec(UseAID(), task=MuJoCo(), num_stages=2, segments_per_stage=1, num_evaluated=1)
    unbroken = records_of(tmp_path / "unbroken", spec)
    with stopped(ppo, "learn", after=3):
        execute(spec, Store.create(tmp_path / "broken"), checkpoint_seconds=0.0)
    assert records_of(tmp_path / "broken", spec) == unbroken
