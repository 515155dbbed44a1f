import functools

import pytest
import torch
import torch.nn.functional as F
from plain_training import METHODS, same_weights
from torch import nn

from slowly import slow
from supple import AID, Learner, attach, convert
from supple.methods import HareTortoise, ReDo, UseAID

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed (pip install .[integrations])")

import gymnasium as gym
import numpy as np
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback, EveryNTimesteps

from supple.integrations.stable_baselines3 import ActorAndCritic, PlasticityCallback, ReplayBatches

PERIOD = 20  # updates between boundaries
DQN_OPTIONS = {
    "learning_starts": 40,
    "train_freq": 2,
    "batch_size": 16,
    "buffer_size": 500,
    "max_grad_norm": 0.01,  # below the norm of the gradients, so that it matters what is clipped
    "target_update_interval": 50,
    "learning_rate": 1e-3,
}
NAMES = [name for name in METHODS if name != "dash"]  # which needs a loss on observations, and there is none
HOOKED = ["vanilla", "l2_init", "cbp", "redo", "full_reset"]  # one for each place at which a method may act


class PlainDQN(DQN):
    """DQN with the update written out, and a method's hooks where they belong."""

    def use(self, method):
        self.method = method
        net = self.q_net
        self.learner = Learner(net, self.policy.optimizer, example_input=torch.zeros(2, 4), seed=0)
        self.memory = method.init(self.learner)

    def train(self, gradient_steps, batch_size=100):
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        for _ in range(gradient_steps):
            data = self.replay_buffer.sample(batch_size)
            with torch.no_grad():
                best = self.q_net_target(data.next_observations).max(dim=1).values[:, None]
                wanted = data.rewards + (1 - data.dones) * self.gamma * best
            values = self.q_net(data.observations).gather(1, data.actions.long())
            self.policy.optimizer.zero_grad()
            F.smooth_l1_loss(values, wanted).backward()
            self.method.after_backward(self.learner, self.memory)
            nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
            self.method.after_step(self.learner, self.memory)
            self._n_updates += 1
            if self._n_updates % PERIOD == 0:
                seen = ReplayBatches(self)
                self.method.end_stage(self.learner, self.memory, seen)
                self.method.begin_stage(self.learner, self.memory, seen, self._n_updates // PERIOD)


def dqn(kind=DQN, *, activation=nn.ReLU, **options):
    kwargs = {"net_arch": [16, 16], "activation_fn": activation}
    return kind("MlpPolicy", "CartPole-v1", policy_kwargs=kwargs, seed=0, device="cpu", **DQN_OPTIONS | options)


def ppo(kind=PPO, *, activation=nn.Tanh, **options):
    kwargs = {"net_arch": [16, 16], "activation_fn": activation}
    sizes = {"n_steps": 32} | ({"batch_size": 16, "n_epochs": 2} if kind is PPO else {})
    return kind("MlpPolicy", "CartPole-v1", policy_kwargs=kwargs, seed=0, device="cpu", **sizes | options)


def sac(kind=SAC, **options):
    sizes = {"learning_starts": 30, "batch_size": 16, "buffer_size": 500}
    arch = {"net_arch": [16, 16]}
    return kind("MlpPolicy", "Pendulum-v1", policy_kwargs=arch, seed=0, device="cpu", **sizes | options)


@functools.cache
def trained_alone(build, kind, num_timesteps):
    """What the algorithm learns without a callback."""
    model = build(kind) if build is not ppo else ppo(kind, activation=nn.ReLU)
    return model.learn(num_timesteps)


@pytest.mark.parametrize("name", NAMES)
def test_callback_trains_dqn_as_the_plain_update_does(name):
    model, method = dqn(), METHODS[name]  # a model seeds all random streams, so each learns before the next is made
    model.learn(200, callback=PlasticityCallback(method, steps_per_stage=PERIOD))
    plain = dqn(PlainDQN)
    plain.use(method)
    plain.learn(200)
    assert plain._n_updates == 80
    assert same_weights(model.q_net, plain.q_net)
    assert same_weights(model.q_net, trained_alone(dqn, DQN, 200).q_net) == (name == "vanilla")


@pytest.mark.parametrize("name", HOOKED)
@pytest.mark.parametrize("kind", [PPO, A2C])
def test_callback_acts_at_every_update_of_ppo_and_a2c(kind, name):
    model = ppo(kind, activation=nn.ReLU)
    callback = PlasticityCallback(METHODS[name], steps_per_stage=2)
    model.learn(192, callback=callback)
    assert callback.plasticity.num_steps == (6 * 2 * 2 if kind is PPO else 6)
    assert callback.plasticity.stage == callback.plasticity.num_steps // 2
    assert same_weights(model.policy, trained_alone(ppo, kind, 192).policy) == (name == "vanilla")


def test_gradients_of_ppo_are_edited_before_they_are_clipped():
    """With a penalty alone as gradient, clipping after the edit bounds each step of plain SGD by the limit."""
    options = {"net_arch": [16, 16], "optimizer_class": torch.optim.SGD}
    sizes = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "max_grad_norm": 1e-3, "learning_rate": 1.0}
    model = PPO("MlpPolicy", "CartPole-v1", policy_kwargs=options, seed=0, device="cpu", **sizes)
    before = torch.cat([parameter.detach().flatten().clone() for parameter in model.policy.parameters()])
    model.learn(32, callback=PlasticityCallback(Large()))
    after = torch.cat([parameter.detach().flatten() for parameter in model.policy.parameters()])
    assert (after - before).norm() == pytest.approx(1e-3, rel=1e-2)


class Large(type(METHODS["vanilla"])):
    """Makes every gradient a million."""

    def after_backward(self, learner, state):
        for gradient in learner.trained()[2]:
            gradient.fill_(1e6)


def test_the_network_to_evaluate_is_evaluated_by_an_eval_callback():
    model, seen = dqn(), []

    class Watching(gym.Wrapper):
        def reset(self, **options):
            seen.append(model.q_net.q_net[0].weight.clone())
            return super().reset(**options)

    start = model.q_net.q_net[0].weight.clone()
    evaluator = EvalCallback(Watching(gym.make("CartPole-v1")), n_eval_episodes=1, eval_freq=1, verbose=0, warn=False)
    tortoise = PlasticityCallback(HareTortoise(momentum=1.0, every=10**6))  # a tortoise that stays
    model.learn(200, callback=[tortoise, EveryNTimesteps(50, evaluator)])
    assert len(seen) >= 4
    assert all(torch.equal(start, weight) for weight in seen)
    assert not torch.equal(start, model.q_net.q_net[0].weight)
    assert same_weights(model.q_net, trained_alone(dqn, DQN, 200).q_net)
    evaluator.on_step()  # after the training it evaluates what it is given
    assert not torch.equal(start, seen[-1])


@pytest.mark.parametrize("build", [dqn, ppo])
def test_aid_acts_in_evaluation_mode_and_learns_in_training_mode(build):
    model, modes = build(activation=functools.partial(AID, p=0.9)), set()
    for module in model.policy.modules():
        if isinstance(module, AID):
            module.register_forward_hook(lambda own, *_: modes.add((torch.is_grad_enabled(), own.training)))
    model.learn(200)
    model.predict(np.zeros(4, dtype=np.float32))
    assert modes == {(False, False), (True, True)}


def test_saved_model_with_aid_loads_and_acts_the_same(tmp_path):
    model = dqn(activation=functools.partial(AID, p=0.99))
    model.learn(100)
    model.save(tmp_path / "model")
    loaded = DQN.load(tmp_path / "model")
    x = torch.randn(8, 4)
    assert any(isinstance(module, AID) and module.p == 0.99 for module in loaded.q_net.modules())
    assert torch.equal(model.q_net.eval()(x), loaded.q_net.eval()(x))


class Images(gym.Env):
    """Noise to look at."""

    observation_space = gym.spaces.Box(0, 255, (36, 36, 1), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 1.0, self.np_random.random() < 0.1, False, {}


class Named(Images):
    """The observation under a name."""

    observation_space = gym.spaces.Dict({"where": gym.spaces.Box(-1, 1, (3,))})


def activations_of(module):
    return [type(part) for part in module.modules() if isinstance(part, (nn.ReLU, AID))]


@pytest.mark.parametrize("kind", [DQN, PPO])
def test_conversion_reaches_the_convolutions_that_activation_fn_does_not(kind):
    sizes = {"buffer_size": 100, "learning_starts": 10, "batch_size": 4} if kind is DQN else {"n_steps": 16}
    model = kind("CnnPolicy", Images(), policy_kwargs={"activation_fn": AID}, seed=0, device="cpu", **sizes)
    assert set(activations_of(model.policy)) == {nn.ReLU}
    assert convert(model.policy, AID(p=0.99)) is model.policy
    networks = [model.q_net, model.q_net_target] if kind is DQN else [model.policy]
    assert [activations_of(network) for network in networks] == [[AID] * 4] * len(networks)
    model.learn(16)


def test_monitor_and_methods_without_a_trace_serve_observations_of_several_arrays():
    def learn(callback):
        PPO("MultiInputPolicy", Named(), n_steps=16, batch_size=8, device="cpu").learn(32, callback=callback)

    for method in (METHODS["vanilla"], METHODS["full_reset"]):
        callback = PlasticityCallback(method, steps_per_stage=10)
        learn(callback)
        assert callback.plasticity.num_steps == 2 * 2 * 10
    with pytest.raises(ValueError, match="CBP traces the network.*observations are a Dict"):
        learn(PlasticityCallback(METHODS["cbp"]))


class Interrupt(BaseCallback):
    def _on_step(self):
        if self.num_timesteps == 100:
            raise KeyboardInterrupt
        return True


def test_updates_are_edited_and_counted_once_after_an_interrupt():
    edits = []

    class Counted(type(METHODS["vanilla"])):
        def after_backward(self, learner, state):
            edits.append(1)

    model, callback = dqn(), PlasticityCallback(Counted())
    with pytest.raises(KeyboardInterrupt):
        model.learn(200, callback=[callback, Interrupt()])
    model.learn(100, callback=callback, reset_num_timesteps=False)
    assert len(edits) == callback.plasticity.num_steps == model._n_updates > 60


def test_metrics_go_to_the_logger_named_by_the_part_they_are_of():
    model, critic = dqn(), sac()
    callback = PlasticityCallback(monitor_every=10)
    model.learn(200, callback=callback, log_interval=10_000)
    assert "plasticity/train/q_net.0/dormant" in model.logger.name_to_value
    assert "dormant" in callback.monitor.report()
    critic.learn(60, callback=[PlasticityCallback(monitor_every=10, part=part) for part in ("actor", "critic")])
    assert "plasticity/critic/train/qf0.0/dormant" in critic.logger.name_to_value


def test_memory_comes_back_in_a_new_callback():
    model, method = dqn(), METHODS["s_ewc"]
    first = PlasticityCallback(method)
    model.learn(100, callback=first)
    saved = first.state_dict()
    second = PlasticityCallback(method)
    second.load_state_dict(saved)
    assert second.state_dict()["num_steps"] == 30
    model.learn(50, callback=second, reset_num_timesteps=False)
    assert second.plasticity.num_steps == int(second.plasticity.states[0]["step.q_net.0.weight"]) == 55
    assert torch.equal(second.plasticity.learner.initial["q_net.0.weight"], saved["initial"]["q_net.0.weight"])


@pytest.mark.parametrize("name", HOOKED)
@pytest.mark.parametrize("kind", [SAC, TD3])
def test_actor_and_critic_have_methods_of_their_own(kind, name):
    model = sac(kind)
    callbacks = {part: PlasticityCallback(METHODS[name], part=part, steps_per_stage=5) for part in ("actor", "critic")}
    model.learn(60, callback=list(callbacks.values()))
    actor, critic = (callback.plasticity for callback in callbacks.values())
    assert (actor.num_steps, critic.num_steps) == (30 if kind is SAC else 15, 30)
    assert (actor.stage, critic.stage) == (actor.num_steps // 5, 6)
    for part in ("actor", "critic"):
        alone = getattr(trained_alone(sac, kind, 60), part)
        assert same_weights(getattr(model, part), alone) == (name == "vanilla")


@pytest.mark.parametrize("kind", [SAC, TD3])
def test_one_part_alone_has_a_method_and_the_other_trains_as_before(kind):
    """Until the other's training feels it: an actor that never learns leaves the critic's first steps as they are."""
    model, callback = sac(kind), PlasticityCallback(METHODS["full_reset"], part="actor", steps_per_stage=1)
    before = [parameter.detach().clone() for parameter in model.actor.parameters()]
    model.learn(60, callback=callback)
    assert all(map(torch.equal, before, model.actor.parameters()))
    assert callback.plasticity.num_acts == [callback.plasticity.num_steps]


@pytest.mark.parametrize("name", ["cbp", slow("l2_init"), slow("s_ewc")])
def test_callback_trains_td3_as_attached_methods_do(name):
    model, method = sac(TD3), METHODS[name]
    model.learn(80, callback=[PlasticityCallback(method, part=part) for part in ("actor", "critic")])
    plain, inputs = sac(TD3), (torch.zeros(2, 3), torch.zeros(2, 1))
    for part, example in ((plain.actor, inputs[0]), (plain.critic, inputs)):
        attach(part, part.optimizer, method, example_input=example)
    plain.learn(80)
    assert same_weights(model.actor, plain.actor)
    assert same_weights(model.critic, plain.critic)


def test_units_of_actor_and_critic_are_found():
    policy = ppo(activation=nn.ReLU).policy
    learner = Learner(ActorAndCritic(policy), policy.optimizer, example_input=torch.zeros(2, 4))
    branches = [f"policy.mlp_extractor.{branch}_net.{i}" for branch in ("policy", "value") for i in (1, 3)]
    assert sorted(layer.name for layer in learner.units) == branches
    parts = {part: PlasticityCallback(METHODS["cbp"], part=part) for part in ("actor", "critic")}
    sac().learn(35, callback=list(parts.values()))
    found = {part: sorted(layer.name for layer in own.plasticity.learner.units) for part, own in parts.items()}
    assert found["actor"] == ["actor.latent_pi.1", "actor.latent_pi.3"]
    assert found["critic"] == ["qf0.1", "qf0.3", "qf1.1", "qf1.3"]


@pytest.mark.parametrize("kind", [SAC, TD3])
def test_without_a_method_actor_and_critic_are_watched(kind):
    model, callback = sac(kind), PlasticityCallback(monitor_every=10)
    model.learn(60, callback=callback, log_interval=10_000)
    names = model.logger.name_to_value
    actor = "latent_pi" if kind is SAC else "mu"
    assert f"plasticity/train/actor.{actor}.0/dormant" in names
    assert "plasticity/train/critic.qf1.0/dormant" in names
    assert same_weights(model.policy, trained_alone(sac, kind, 60).policy)


def test_a_method_without_a_part_is_refused_where_two_optimizers_train():
    with pytest.raises(ValueError, match=r"SACPolicy has an optimizer for its actor.*part='actor'"):
        sac().learn(1, callback=PlasticityCallback(METHODS["l2_init"]))
    with pytest.raises(ValueError, match="got part='value'"):
        sac().learn(1, callback=PlasticityCallback(part="value"))
    with pytest.raises(ValueError, match="DQNPolicy has one optimizer.*leave part='critic' out"):
        dqn().learn(1, callback=PlasticityCallback(part="critic"))


def test_a_method_that_only_swaps_the_activation_names_the_ways_to_do_so():
    with pytest.raises(ValueError, match=r"convert\(model.policy, AID\(p=0.9\)\), or policy_kwargs="):
        PlasticityCallback(UseAID())


@pytest.mark.parametrize("build", [dqn, ppo])
def test_redo_with_a_period_scores_observations_of_the_buffer(build):
    seen = []

    class Reads(ReDo):
        def end_stage(self, learner, state, data):
            seen.append(next(iter(data))[0].shape[1:])
            super().end_stage(learner, state, data)

    model = build(activation=nn.ReLU)
    callback = PlasticityCallback(Reads(threshold=0.5, every=4))
    model.learn(200, callback=callback)
    assert seen == [(4,)] * callback.plasticity.num_acts[0]
    assert callback.plasticity.num_acts[0] == callback.plasticity.num_steps // 4 > 2
