"""The runs of SAC and TD3: they learn a task, and a resume changes nothing."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from test_ppo import num_replayed, records_of

from slowly import slow
from small_runs import stopped
from supple.methods import CBP, DASH, FullReset, L2Init, ReDo
from supple.methods.activations import UseAID
from supple.methods.base import Method
from supple.methods.chain import Chain
from supple.methods.vanilla import Vanilla
from supple_lab.models.mlp import MLP
from supple_lab.optimizer import Adam, AdamW
from supple_lab.rl.control import Slide
from supple_lab.rl.off_policy_problem import OffPolicy
from supple_lab.run import off_policy
from supple_lab.run.run import execute
from supple_lab.spec import RunSpec
from supple_lab.store.store import Store

SMALL = OffPolicy(
    task=Slide(num_steps=20),
    num_stages=2,
    segments_per_stage=2,
    steps_per_segment=30,  # so that a segment cuts an episode off
    num_random_steps=20,
    batch_size=32,
    num_evaluated=2,
)
ALGORITHMS = pytest.mark.parametrize("algorithm", ["sac", "td3"])


def small_spec(method: Method | None = None, **changed) -> RunSpec:
    return RunSpec(
        problem=replace(SMALL, **changed),
        model=MLP(width=32, num_hidden=2),
        method=method or Vanilla(),
        optimizer=Adam(learning_rate=1e-3),
        seed=0,
    )


@ALGORITHMS
def test_run_learns_the_task(tmp_path, algorithm):
    longer = {"num_stages": 1, "steps_per_segment": 500, "num_random_steps": 100, "num_evaluated": 20}
    shorter = {"discount": 0.9, "target_rate": 0.05}  # what follows an action in a few steps, and spreads fast
    spec = replace(small_spec(algorithm=algorithm, **longer, **shorter), optimizer=Adam(learning_rate=3e-3), seed=1)
    record, first, _ = records_of(tmp_path, spec)
    assert record["score"] > 14  # of 20
    assert first["train_score"] < 13  # while it explores and begins to learn


METHODS = [UseAID(relu_prob=0.9), FullReset(), DASH()]
METHODS += map(slow, (CBP(replacement_rate=0.05, maturity=3), L2Init(), ReDo(threshold=0.5)))


@ALGORITHMS
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_resumed_run_equals_unbroken_run(tmp_path, monkeypatch, method, algorithm):
    spec = small_spec(method, algorithm=algorithm, target_mode="train")
    unbroken = records_of(tmp_path / "unbroken", spec)
    for num_segments in (1, 2):
        with stopped(off_policy, "play_segment", after=num_segments):
            execute(spec, Store.create(tmp_path / "broken"), checkpoint_seconds=0.0)
    resumed, restore = [], off_policy.Agent.restore_
    monkeypatch.setattr(off_policy.Agent, "restore_", lambda agent, state: resumed.append(restore(agent, state)))
    assert records_of(tmp_path / "broken", spec) == unbroken
    assert resumed == [None]


AID_AND_REDO = Chain(methods=(UseAID(relu_prob=0.9), ReDo(threshold=0.5)))  # ReDo reads the replay between stages
REPLAYED = [AID_AND_REDO, FullReset(), *map(slow, (CBP(replacement_rate=0.05, maturity=3), L2Init()))]


@ALGORITHMS
@pytest.mark.parametrize("method", REPLAYED, ids=lambda method: method.name)
def test_replayed_work_changes_no_number(tmp_path, monkeypatch, method, algorithm):
    number = num_replayed(tmp_path, monkeypatch, small_spec(method, algorithm=algorithm))
    assert number == {"sac": 2, "td3": 3}[algorithm]  # TD3 has two kinds of updates


def agent_of(**changed):
    spec = small_spec(UseAID(relu_prob=0.7), **changed)
    agent = off_policy.Agent(spec, spec.problem, torch.device("cpu"), torch.Generator())
    body, chance = SMALL.task.start(0), np.random.default_rng(0)
    seen = body.reset()
    for _ in range(15):
        action = chance.uniform(-1, 1, 1)
        motion = body.step(action)
        agent.memory.add_(seen, action, motion)
        seen = motion.observation
    return agent


@pytest.mark.parametrize(("mode", "is_noisy"), [("eval", False), ("train", True)])
def test_targets_draw_masks_only_if_asked_to(mode, is_noisy):
    agent = agent_of(algorithm="td3", target_mode=mode)
    steps, noise = agent.memory.steps(torch.arange(8)), torch.randn(8, 1, generator=torch.Generator().manual_seed(1))
    worths = [agent.worth(steps, noise) for _ in range(2)]
    assert torch.equal(*worths) != is_noisy


def squashed(output, noise):
    """SAC's action and its log-density, by torch's distributions."""
    mean, raw = output.chunk(2, dim=1)
    normal = torch.distributions.Normal(mean, (-5.0 + 3.5 * (raw.tanh() + 1)).exp())
    action = (normal.mean + normal.stddev * noise).tanh()
    tanh = torch.distributions.TanhTransform(cache_size=1)
    return action, torch.distributions.TransformedDistribution(normal, [tanh]).log_prob(action)


def test_worth_of_sac_is_that_of_its_definition():
    agent = agent_of(algorithm="sac")
    agent.actor.learner.model.eval()
    steps, noise = agent.memory.steps(torch.arange(8)), torch.randn(8, 1, generator=torch.Generator().manual_seed(1))
    worth = agent.worth(steps, noise)
    action, log_prob = squashed(agent.actor.learner.model(steps.later), noise)
    values = agent.targets["critics"](torch.cat((steps.later, action), 1)).amin(1, keepdim=True)
    expected = steps.reward + 0.99 * (values - log_prob)  # no step ended, and the temperature is 1
    torch.testing.assert_close(worth, expected, rtol=1e-3, atol=1e-3)


@ALGORITHMS
def test_loss_that_the_actor_is_shown_is_that_of_its_definition(algorithm):
    """DASH takes gradients of it between two stages."""
    agent = agent_of(algorithm=algorithm)
    actor, critics = agent.actor.learner, agent.critics.learner
    with torch.no_grad():
        agent.log_temperature.fill_(-1.0)
    batch = next(iter(off_policy.ReplayBatches(agent, "actor", stage=1)))
    actor.model.eval()
    x, noise = batch[0], batch[1][:, -1:]
    output = actor.model(x)
    if algorithm == "sac":
        action, log_prob = squashed(output, noise)
        values = critics.model.eval()(torch.cat((x, action), 1)).amin(1, keepdim=True)
        expected = (np.exp(-1.0) * log_prob - values).mean()
    else:
        expected = -critics.model.eval().first(torch.cat((x, output.tanh()), 1)).mean()
    critics.model.train()
    batch = next(iter(off_policy.ReplayBatches(agent, "actor", stage=1)))  # no critic draws masks
    loss = actor.loss(batch)
    torch.testing.assert_close(loss, expected, rtol=1e-3, atol=1e-3)
    loss.backward()
    assert all(parameter.grad.any() for parameter in actor.model.parameters())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in critics.model.parameters())


def test_cut_off_episode_is_not_the_end_of_its_value():
    agent = agent_of()
    body = Slide(num_steps=1).start(0)
    seen = body.reset()
    motion = body.step(np.zeros(1))
    assert motion.truncated
    agent.memory.add_(seen, np.zeros(1), motion)
    assert agent.memory.table[15, -1] == 0.0


def test_worth_of_td3_is_that_of_its_definition():
    agent = agent_of(algorithm="td3")
    steps = agent.memory.steps(torch.arange(4))
    steps = steps._replace(terminal=torch.tensor([[0.0], [1.0], [0.0], [0.0]]))
    noise = torch.tensor([[0.5], [0.5], [5.0], [-5.0]])
    nudge = torch.tensor([[0.1], [0.1], [0.5], [-0.5]])  # a fifth of the noise, at most a half
    action = (agent.targets["actor"](steps.later).tanh() + nudge).clamp(-1.0, 1.0)
    values = agent.targets["critics"](torch.cat((steps.later, action), 1)).amin(1, keepdim=True)
    expected = steps.reward + 0.99 * torch.tensor([[1.0], [0.0], [1.0], [1.0]]) * values
    torch.testing.assert_close(agent.worth(steps, noise), expected)


@pytest.mark.parametrize(("deviation", "side"), [(0.0, -1), (-5.0, 1)])
def test_temperature_falls_while_actions_are_more_random_than_wanted(deviation, side):
    agent = agent_of(algorithm="sac")
    with torch.no_grad():
        *_, last = (module for module in agent.actor.learner.model.modules() if isinstance(module, torch.nn.Linear))
        last.weight.zero_()
        last.bias.copy_(torch.tensor([0.0, deviation]))  # the mean, and before its squashing the logarithm
    agent.learn_(torch.Generator())
    assert torch.sign(agent.log_temperature).item() == side


@ALGORITHMS
def test_agents_act_without_masks_and_explore_by_noise_alone(algorithm):
    agent, seen = agent_of(algorithm=algorithm), np.ones(2)
    agent.learn_(torch.Generator())  # leaves the networks in training mode
    mean = agent.act(seen, None)
    assert np.array_equal(mean, agent.act(seen, None))
    tried = [agent.act(seen, torch.Generator().manual_seed(seed)) for seed in (1, 2)]
    assert not np.array_equal(*tried)
    if algorithm == "td3":
        noise = torch.randn(1, 1, generator=torch.Generator().manual_seed(1)).item()
        assert tried[0] == pytest.approx(np.clip(mean + 0.1 * noise, -1, 1), abs=1e-6)


def test_segments_say_what_is_theirs(tmp_path):
    first_stage, _, *segments = records_of(tmp_path, small_spec(num_random_steps=30))
    assert ["loss" in segment for segment in segments] == [False, True, True, True]  # no update, no loss
    scores = [segment["train_score"] for segment in segments[:2]]
    assert scores[0] != scores[1]
    assert first_stage["train_score"] == pytest.approx(np.mean(scores))  # an episode each


def test_decay_is_of_networks_alone():
    spec = replace(small_spec(), optimizer=AdamW(learning_rate=0.1, weight_decay=0.5))
    agent = off_policy.Agent(spec, spec.problem, torch.device("cpu"), torch.Generator())
    agent.log_temperature.data.fill_(3.0)
    agent.log_temperature.grad = torch.zeros(1)
    agent.temperature_adam.step()
    assert agent.log_temperature.item() == 3.0
