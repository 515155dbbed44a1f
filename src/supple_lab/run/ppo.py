"""The PPO loop: segments of rollouts and updates, an evaluation after each stage, and where a run is."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.layers import give_widths_
from supple.learner import Batch
from supple.random import held_masks, kept_default_generators
from supple_lab.precision import Numerics
from supple_lab.rl.control import Body, Motion, Observation, Task, mean_return, mean_score
from supple_lab.rl.ppo_problem import PPO
from supple_lab.run.captures import Captures
from supple_lab.run.check import body_of
from supple_lab.run.network import attached, in_mode, learner_of, restore_snapshot_, take_snapshot
from supple_lab.run.recorder import Journal
from supple_lab.run.step import TrainState, step_by_
from supple_lab.run.supervised import check_finite
from supple_lab.spec import RunSpec
from supple_lab.streams import stream, stream_seed

LARGEST = 10.0  # normalised observations and rewards beyond are clipped, as CleanRL does
HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)


class Running:
    """Mean and variance of all that was seen, by Chan's rule for batches."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.mean, self.variance, self.count = np.zeros(shape), np.ones(shape), 1e-4

    def see_(self, rows: np.ndarray) -> None:
        number = len(rows)
        mean = np.add.reduce(rows) / number  # numpy's own mean and variance of some rows take three times as long
        variance = np.add.reduce((rows - mean) ** 2) / number
        shift, total = mean - self.mean, self.count + number
        spread = self.variance * self.count + variance * number + shift**2 * self.count * number / total
        self.mean, self.variance, self.count = self.mean + shift * number / total, spread / total, total

    def normalised(self, rows: np.ndarray) -> Tensor:
        scaled = (rows - self.mean) / np.sqrt(self.variance + 1e-8)
        return torch.from_numpy(scaled).float().clamp_(-LARGEST, LARGEST)

    def state(self) -> dict[str, Any]:
        return {"mean": self.mean.tolist(), "variance": self.variance.tolist(), "count": self.count}

    def restore_(self, state: dict[str, Any]) -> None:
        self.mean, self.variance = np.array(state["mean"]), np.array(state["variance"])
        self.count = state["count"]


class ActorCritic(nn.Module):
    """Two networks of one make: observations to the policy and to the value.

    The policy's are the mean action, whose spread is trained, or a number for each action that can be chosen.
    """

    def __init__(self, spec: RunSpec, body: Body) -> None:
        super().__init__()
        assert isinstance(spec.problem, PPO)
        shape, activation = body.image_shape, spec.method.activation
        of_actor = activation if spec.problem.activation_in == "both" else nn.ReLU
        self.actor = spec.model.build(of_actor, image_shape=shape, num_classes=body.num_actions)
        self.critic = spec.model.build(activation, image_shape=shape, num_classes=1)
        self.log_std = None if body.chooses else nn.Parameter(torch.zeros(body.num_actions))
        if (scale := spec.problem.actor_scale) != 1.0:
            *_, last = (module for module in self.actor.modules() if isinstance(module, nn.Linear))
            with torch.no_grad():
                torch._foreach_mul_(list(last.parameters()), scale)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.actor(x), self.critic(x).squeeze(1)

    def drawn(self, outputs: Tensor, noise: Tensor) -> Tensor:
        """An action for each row, by what ``noise_for`` drew; what is not finite is noticed by the loss."""
        if self.log_std is None:
            return (outputs.softmax(1).cumsum(1)[:, :-1] <= noise[:, None]).sum(1)
        return outputs + self.log_std.exp() * noise

    def log_prob_of(self, action: Tensor, outputs: Tensor) -> Tensor:
        """Of all forces of an action together, or of the one that was chosen."""
        if self.log_std is None:
            return outputs.log_softmax(1).gather(1, action[:, None]).squeeze(1)
        z = (action - outputs) * (-self.log_std).exp()
        return -0.5 * z.square().sum(1) - (self.log_std + HALF_LOG_2_PI).sum()

    def mean_entropy(self, outputs: Tensor) -> Tensor:
        """Of the policy, over the rows."""
        if self.log_std is None:
            log_probs = outputs.log_softmax(1)
            return -(log_probs.exp() * log_probs).sum(1).mean()
        return (self.log_std + 0.5 + HALF_LOG_2_PI).sum()


@dataclass
class PPOCursor:
    """All of it counts from the start of the run, but for the scores, which are of the stage."""

    stage: int = 0
    segment: int = 0
    num_samples: int = 0
    scores: list[float] = field(default_factory=list)


class Rollout(NamedTuple):
    """Samples of all bodies, step after step: a row each."""

    x: Tensor
    samples: Tensor  # their numbers, by which masks are held
    action: Tensor
    log_prob: Tensor
    advantage: Tensor
    worth: Tensor  # what the critic is to say


class Agent:
    """The networks in training, and the running statistics that they depend on."""

    def __init__(self, spec: RunSpec, problem: PPO, device: torch.device, masks: torch.Generator) -> None:
        body = body_of(problem.task)
        self.spec, self.problem = spec, problem
        self.numerics = Numerics.choose(device, spec.precision)
        with kept_default_generators():
            torch.default_generator.manual_seed(stream_seed(spec.seed, "initialisation"))
            network: nn.Module = ActorCritic(spec, body)
            give_widths_(network, torch.zeros(2, *body.shape))
        network = self.numerics.place(network)
        example = torch.zeros(2, *body.shape, device=device)
        learner = learner_of(spec, network, example_input=example, loss=self.loss_on_rows)
        self.plasticity = attached(spec.method, learner, clip_norm=problem.clip_norm)
        self.observed, self.returns = Running(() if body.chooses else body.shape), Running((1,))
        self.body, self._mask_seed = body, stream_seed(spec.seed, "held masks")
        self.sums = torch.zeros(2, dtype=torch.float64, device=device)  # of the losses of an update
        self.captures = Captures(TrainState(self.plasticity, self.numerics, masks, self.sums))
        self.act, self.mean_action = self.captures.acting(self._act), self.captures.acting(self._mean_action)
        self.learn_ = self.captures.learning(self._learn)

    @property
    def network(self) -> ActorCritic:
        network = self.plasticity.learner.model
        assert isinstance(network, ActorCritic)
        return network

    def see_(self, rows: np.ndarray) -> None:
        if not self.body.chooses:  # frames are not normalised
            self.observed.see_(rows)

    def read(self, rows: np.ndarray) -> Tensor:
        """Observations as the networks get them, on the host."""
        return torch.from_numpy(rows).float() if self.body.chooses else self.observed.normalised(rows)

    def forward(self, x: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
        """What the policy is of and the values, of what was read, in the mode that the network is in."""
        with self.numerics.forward():
            if self.problem.masks == "held":
                with held_masks(samples, seed=self._mask_seed):
                    outputs, value = self.network(x)
            else:
                outputs, value = self.network(x)
        return outputs.float(), value.float()

    @torch.no_grad()
    def _act(self, x: Tensor, samples: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Actions, their log-probabilities and the values."""
        in_mode(self.network, training=self.problem.masks == "held")
        outputs, value = self.forward(x, samples)
        action = self.network.drawn(outputs, noise)
        return action, self.network.log_prob_of(action, outputs), value

    def noise_for(self, num_steps: int, chance: torch.Generator) -> Tensor:
        """What the actions of so many steps are drawn by, from a generator of the host."""
        shape = (num_steps, self.problem.num_bodies)
        if self.body.chooses:
            return torch.rand(shape, generator=chance)
        return torch.randn(*shape, self.body.num_actions, generator=chance)

    def clipped(self, action: Tensor) -> np.ndarray:
        return np.clip(action.double().numpy(), -self.body.largest, self.body.largest)

    @torch.no_grad()
    def _mean_action(self, x: Tensor) -> tuple[Tensor]:
        """Or the likeliest, in evaluation mode."""
        in_mode(self.network, training=False)
        with self.numerics.forward():
            outputs = self.network.actor(x).float()
        return (outputs.argmax(1) if self.body.chooses else outputs,)

    def _learn(self, *part: Tensor) -> tuple[()]:
        """A step on some samples of a rollout; the losses of the policy and of the values are added up."""
        x, samples, *rest = part
        in_mode(self.network, training=True)
        loss, parts = self.loss(self.forward(x, samples), *rest)
        step_by_(loss, self.plasticity)
        self.sums += parts.detach()
        return ()

    def loss(
        self, given: tuple[Tensor, Tensor], action: Tensor, log_prob: Tensor, gain: Tensor, worth: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Of what the network gives for some samples; also that of the policy and that of the values."""
        (outputs, value), problem, network = given, self.problem, self.network
        ratio = (network.log_prob_of(action, outputs) - log_prob).exp()
        gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        near = ratio.clamp(1.0 - problem.clip, 1.0 + problem.clip)
        policy_loss, value_loss = -torch.min(gain * ratio, gain * near).mean(), F.mse_loss(value, worth)
        loss = policy_loss + problem.value_weight * value_loss
        if problem.entropy_weight:
            loss = loss - problem.entropy_weight * network.mean_entropy(outputs)
        return loss, torch.stack((policy_loss, value_loss))

    def loss_on_rows(self, given: Any, rows: Tensor) -> Tensor:
        """The learner's loss, for methods that take gradients of their own, on what ``LastRollout`` shows."""
        action, (log_prob, gain, worth) = rows[:, :-3], rows[:, -3:].unbind(1)
        return self.loss(given, action[:, 0].long() if self.body.chooses else action, log_prob, gain, worth)[0]


class Bodies:
    """Those of a segment, with what they show now and what they have earned."""

    def __init__(self, agent: Agent, task: Task, *, seed: int, segment: int) -> None:
        number = agent.problem.num_bodies
        self.agent = agent
        self.all = [task.start(stream_seed(seed, "body", segment, each)) for each in range(number)]
        self.chance = stream(seed, "actions", segment)
        self.seen = np.stack([body.reset() for body in self.all])
        self.earned, self.discounted = np.zeros(number), np.zeros(number)
        agent.see_(self.seen)

    def play(self, cursor: PPOCursor) -> Rollout:
        """A rollout, by the network as it is."""
        agent, problem = self.agent, self.agent.problem
        rows: list[tuple[Tensor, ...]] = []
        after = torch.zeros(problem.steps_per_rollout, problem.num_bodies)  # the values that follow steps
        ends = torch.zeros(problem.steps_per_rollout, problem.num_bodies)
        noise = agent.noise_for(problem.steps_per_rollout, self.chance)
        numbers = cursor.num_samples + torch.arange(problem.samples_per_rollout)
        cursor.num_samples += problem.samples_per_rollout
        for step, samples in enumerate(numbers.split(problem.num_bodies)):
            x = agent.read(self.seen)
            action, log_prob, value = (result.cpu() for result in agent.act(x, samples, noise[step]))
            motions = [body.step(each) for body, each in zip(self.all, agent.clipped(action), strict=True)]
            reward = self.pay(motions, cursor)
            over = [motion.terminal or motion.truncated for motion in motions]
            cut = [at for at, motion in enumerate(motions) if motion.truncated and not motion.terminal]
            if cut:  # their values go on, from what they saw last
                after[step, cut] = self.values_of(np.stack([motions[at].observation for at in cut]))
            if any(over):
                ends[step] = torch.tensor(over, dtype=torch.float)
            rows.append((x, action, log_prob, value, reward))
            self.seen = np.stack(
                [
                    body.reset() if ended else motion.observation
                    for body, motion, ended in zip(self.all, motions, over, strict=True)
                ]
            )
            agent.see_(self.seen)
        xs, actions, log_probs, values, rewards = map(torch.stack, zip(*rows, strict=True))
        following = torch.cat((values[1:], self.values_of(self.seen)[None]))
        surprises = rewards + problem.discount * torch.where(ends.bool(), after, following) - values
        advantages = discounted_sums(surprises, ends, problem.discount * problem.decay)
        columns = (xs, numbers.view_as(values), actions, log_probs, advantages, advantages + values)
        return Rollout(*(column.flatten(0, 1).to(agent.numerics.device) for column in columns))

    def pay(self, motions: list[Motion], cursor: PPOCursor) -> Tensor:
        """Rewards by the deviation of discounted returns; scores of episodes that ended are noted."""
        rewards = np.array([motion.reward for motion in motions])
        over = np.array([motion.terminal or motion.truncated for motion in motions])
        self.earned += rewards
        self.discounted = self.discounted * self.agent.problem.discount + rewards
        self.agent.returns.see_(self.discounted[:, None])
        cursor.scores += self.earned[over].tolist()
        self.earned[over] = self.discounted[over] = 0.0
        scale = math.sqrt(self.agent.returns.variance[0] + 1e-8)
        return torch.from_numpy(np.clip(rewards / scale, -LARGEST, LARGEST)).float()

    @torch.no_grad()
    def values_of(self, observations: np.ndarray) -> Tensor:
        """By the mean: what is only read draws no masks."""
        agent = self.agent
        in_mode(agent.network, training=False)
        with agent.numerics.forward():
            values = agent.network(agent.read(observations).to(agent.numerics.device))[1]
        return values.float().cpu()


def discounted_sums(values_TB: Tensor, ends_TB: Tensor, factor: float) -> Tensor:
    """Each value and those that follow it in its episode, each step's times the factor."""
    sums, running = torch.zeros_like(values_TB), torch.zeros_like(values_TB[0])
    for step in reversed(range(len(values_TB))):
        running = values_TB[step] + factor * (1 - ends_TB[step]) * running
        sums[step] = running
    return sums


def learn(agent: Agent, rollout: Rollout, draws: torch.Generator) -> dict[str, float]:
    """One update: several passes over the rollout in minibatches; the mean losses."""
    problem, num_steps = agent.problem, 0
    agent.sums.zero_()
    for _ in range(problem.epochs):
        order = torch.randperm(len(rollout.x), generator=draws).to(rollout.x.device)
        for part in zip(*(column[order].split(problem.batch_size) for column in rollout), strict=True):
            if len(part[0]) < 2:  # an advantage alone cannot be normalised
                continue
            agent.learn_(*part)
            num_steps += 1
    policy_loss, value_loss = (agent.sums / num_steps).tolist()
    return {"policy_loss": policy_loss, "value_loss": value_loss}


def evaluate(agent: Agent, task: Task, *, seed: int, stage: int) -> dict[str, float]:
    """Whole episodes by the mean or likeliest action in evaluation mode; changes nothing that training depends on."""

    def act(seen: Observation) -> np.ndarray:
        (action,) = agent.mean_action(agent.read(seen[None]))
        return agent.clipped(action.cpu())[0]

    body = task.start(stream_seed(seed, "evaluation", stage))
    return {"score": mean_return(body, act, num_episodes=agent.problem.num_evaluated)}


@dataclass(frozen=True)
class LastRollout:
    """What a method is shown between two stages: observations, each with what its loss is computed from."""

    rollout: Rollout
    batch_size: int

    def __iter__(self) -> Iterator[Batch]:
        x, _, action, *rest = self.rollout
        rows = torch.cat((action.view(len(x), -1), torch.stack(rest, dim=1)), dim=1)
        parts = zip(x.split(self.batch_size), rows.split(self.batch_size), strict=True)
        yield from (part for part in parts if len(part[0]) > 1)  # as in learn


def train(spec: RunSpec, problem: PPO, journal: Journal, masks: torch.Generator) -> None:
    """From the start or the last checkpoint to the end, recording each segment and each stage."""
    agent, cursor = Agent(spec, problem, journal.device, masks), PPOCursor()
    plasticity, checkpoint = agent.plasticity, journal.resume()
    if checkpoint is not None:
        with journal.restoring():
            restore_snapshot_(plasticity, masks, checkpoint)
            agent.observed.restore_(checkpoint["observed"])
            agent.returns.restore_(checkpoint["returns"])
            cursor = PPOCursor(**checkpoint["cursor"])

    def snapshot() -> dict[str, Any]:
        statistics = {"observed": agent.observed.state(), "returns": agent.returns.state()}
        return {**take_snapshot(plasticity, masks), **statistics, "cursor": vars(cursor)}

    num_segments = problem.num_stages * problem.segments_per_stage
    try:
        while cursor.stage < problem.num_stages:
            task = problem.task.at(cursor.stage, spec.seed)
            bodies = Bodies(agent, task, seed=spec.seed, segment=cursor.segment)
            draws, num_before = stream(spec.seed, "minibatches", cursor.segment), len(cursor.scores)
            for number in range(problem.rollouts_per_segment):
                rollout = bodies.play(cursor)
                losses = learn(agent, rollout, draws)
                check_finite(losses["value_loss"], f"in segment {cursor.segment} (stage {cursor.stage})")
                done = cursor.segment + (number + 1) / problem.rollouts_per_segment
                journal.write_progress(progress=done / num_segments, stage=cursor.stage)
            agent.captures.note_why_eager(journal)
            losses |= mean_score(cursor.scores[num_before:])
            journal.record_epoch(stage=cursor.stage, epoch=cursor.segment, **losses)
            cursor.segment += 1
            if cursor.segment % problem.segments_per_stage == 0:
                end_stage(agent, cursor, task, journal, LastRollout(rollout, problem.batch_size))
            journal.checkpoint_if_due(snapshot)
        journal.checkpoint(snapshot)
    finally:
        plasticity.pause()  # its hooks make a cycle, which would keep the memory of model and optimizer


def end_stage(agent: Agent, cursor: PPOCursor, task: Task, journal: Journal, data: LastRollout) -> None:
    """Evaluate and record, then let the method do what it does between two stages; the optimizer goes on."""
    seed, problem = agent.spec.seed, agent.problem
    with agent.plasticity.evaluation():
        values = evaluate(agent, task, seed=seed, stage=cursor.stage) | mean_score(cursor.scores)
    values["num_episodes"] = len(cursor.scores)
    journal.record_stage(stage=cursor.stage, num_steps=cursor.num_samples, **task.facts(), **values)
    cursor.stage, cursor.scores = cursor.stage + 1, []
    if cursor.stage < problem.num_stages:
        agent.plasticity.end_stage(data)
        agent.plasticity.begin_stage(data)
        agent.captures.recheck_addresses()
