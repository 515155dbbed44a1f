"""The loop of SAC and TD3: segments of steps and updates, an evaluation after each stage, and where a run is."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.attach import Plasticity
from supple.layers import give_widths_
from supple.learner import Batch
from supple.random import kept_default_generators
from supple_lab.optimizer import Adam
from supple_lab.precision import Numerics
from supple_lab.rl.control import Body, Motion, Task, mean_return, mean_score
from supple_lab.rl.off_policy_problem import OffPolicy
from supple_lab.run.captures import Captures
from supple_lab.run.check import body_of
from supple_lab.run.network import attached, in_mode, learner_of, restore_snapshot_, take_snapshot
from supple_lab.run.recorder import Journal
from supple_lab.run.step import TrainState, forget_gradients_, step_by_
from supple_lab.run.supervised import check_finite
from supple_lab.spec import RunSpec
from supple_lab.streams import stream, stream_seed

LEAST, MOST = -5.0, 2.0  # of the logarithm of SAC's deviations, as CleanRL has them
NUM_AT_BOUNDARY = 2048  # steps that a method is shown between two stages


class Critics(nn.Module):
    """Observations with actions to two values."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat((self.first(x), self.second(x)), dim=1)


class Steps(NamedTuple):
    """Rows of the replay."""

    x: Tensor
    action: Tensor
    reward: Tensor
    later: Tensor
    terminal: Tensor


class Memory:
    """Every step of the run, in the order in which it was taken, each a row of one table."""

    def __init__(self, capacity: int, body: Body, device: torch.device) -> None:
        (num_observed,) = body.shape
        self.widths = [num_observed, body.num_actions, 1, num_observed, 1]
        self.table, self.number = torch.zeros(capacity, sum(self.widths), device=device), 0

    def add_(self, seen: np.ndarray, action: np.ndarray, motion: Motion) -> None:
        row = np.concatenate((seen, action, (motion.reward,), motion.observation, (motion.terminal,)))
        self.table[self.number] = torch.from_numpy(row)
        self.number += 1

    def draw(self, size: int, draws: torch.Generator) -> Tensor:
        """The numbers of so many steps, on the host."""
        return torch.randint(self.number, (size,), generator=draws)

    def steps(self, chosen: Tensor) -> Steps:
        return Steps(*self.table.index_select(0, chosen.to(self.table.device)).split(self.widths, dim=1))

    def state(self) -> Tensor:
        return self.table[: self.number].clone()

    def restore_(self, state: Tensor) -> None:
        self.number = len(state)
        self.table[: self.number] = state


@dataclass
class StepCursor:
    """All of it counts from the start of the run, but for the scores, which are of the stage."""

    stage: int = 0
    segment: int = 0
    num_steps: int = 0
    scores: list[float] = field(default_factory=list)


class Agent:
    """Actor and critics in training, each with its optimizer and the method, and the networks that targets are of."""

    def __init__(self, spec: RunSpec, problem: OffPolicy, device: torch.device, masks: torch.Generator) -> None:
        body = body_of(problem.task)
        self.spec, self.problem, self.largest = spec, problem, body.largest
        self.numerics = Numerics.choose(device, spec.precision)
        width = body.num_actions * (2 if problem.algorithm == "sac" else 1)
        (num_observed,) = body.shape
        both = num_observed + body.num_actions

        def network(num_inputs: int, num_outputs: int) -> nn.Module:
            shape = (1, 1, num_inputs)
            model = spec.model.build(spec.method.activation, image_shape=shape, num_classes=num_outputs)
            give_widths_(model, torch.zeros(2, num_inputs))
            return model

        with kept_default_generators():
            torch.default_generator.manual_seed(stream_seed(spec.seed, "initialisation"))
            networks = network(num_observed, width), Critics(network(both, 1), network(both, 1))

        def loss_on_rows(output: Tensor, rows: Tensor) -> Tensor:
            """The actor's, for methods that take gradients of their own, on what ``ReplayBatches`` shows."""
            return self.actor_loss(output, rows[:, :num_observed], rows[:, num_observed:])[0]

        self.actor = self._attached(networks[0], num_observed, "method", loss=loss_on_rows)
        self.critics = self._attached(networks[1], both, "method of critics", loss=F.mse_loss)
        self.targets = {"actor": copy.deepcopy(self.actor.learner.model)} if problem.algorithm == "td3" else {}
        self.targets["critics"] = copy.deepcopy(self.critics.learner.model)
        for target in self.targets.values():
            target.train(problem.target_mode == "train")
        self.log_temperature = torch.zeros(1, device=device, requires_grad=True)  # SAC's
        own = spec.optimizer if isinstance(spec.optimizer, Adam) else Adam(learning_rate=spec.optimizer.learning_rate)
        self.temperature_adam = own.build([self.log_temperature])  # type: ignore[list-item]
        self.num_actions = body.num_actions
        self.memory, self.num_updates = Memory(problem.num_steps, body, device), 0
        self.loss = torch.zeros((), dtype=torch.float64, device=device)  # of the critics, added up
        actor, critics = (TrainState(part, self.numerics, masks, self.loss) for part in (self.actor, self.critics))
        self.captures = Captures(actor, critics, also=self._own_tensors)
        self._act = self.captures.acting(self._drawn_action)
        self._learn_all = self.captures.learning(partial(self._learn, all_parts=True))
        self._learn_values = self.captures.learning(partial(self._learn, all_parts=False), critics)

    def _attached(self, model: nn.Module, num_inputs: int, purpose: str, *, loss: Any) -> Plasticity:
        example = torch.zeros(2, num_inputs, device=self.numerics.device)
        learner = learner_of(self.spec, self.numerics.place(model), example_input=example, loss=loss, purpose=purpose)
        return attached(self.spec.method, learner, clip_norm=None)

    def drawn(self, output: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """SAC's action by this noise, and its log-probability."""
        mean, log_std = output.chunk(2, dim=1)
        log_std = LEAST + (log_std.tanh() + 1.0) * (MOST - LEAST) / 2
        raw = mean + log_std.exp() * noise
        log_prob = -0.5 * noise.square() - log_std - 0.9189385332046727  # the logarithm of the root of 2 pi
        squashed = raw.tanh()
        return squashed, (log_prob - (1 - squashed.square() + 1e-6).log()).sum(dim=1, keepdim=True)

    def act(self, seen: np.ndarray, chance: torch.Generator | None) -> np.ndarray:
        """An action from -1 to 1; without chance, the mean one."""
        shape = (1, self.num_actions)
        noise = torch.zeros(shape) if chance is None else torch.randn(shape, generator=chance)
        (action,) = self._act(torch.from_numpy(seen).float()[None], noise)
        return action[0].double().cpu().numpy()

    @torch.no_grad()
    def _drawn_action(self, x: Tensor, noise: Tensor) -> tuple[Tensor]:
        model = in_mode(self.actor.learner.model, training=False)
        with self.numerics.forward():
            output = model(x).float()
        if self.problem.algorithm == "sac":
            return (self.drawn(output, noise)[0],)
        return ((output.tanh() + self.problem.noise * noise).clamp(-1.0, 1.0),)

    def worth(self, steps: Steps, noise: Tensor) -> Tensor:
        """What the critics are to say of the steps; the noise is that of the actions that follow."""
        problem = self.problem
        with torch.no_grad(), self.numerics.forward():
            if problem.algorithm == "sac":
                action, log_prob = self.drawn(self.actor.learner.model(steps.later).float(), noise)
                bonus = -self.log_temperature.exp() * log_prob
            else:
                nudge = (problem.target_noise * noise).clamp(-problem.largest_noise, problem.largest_noise)
                action = (self.targets["actor"](steps.later).float().tanh() + nudge).clamp(-1.0, 1.0)
                bonus = torch.zeros_like(steps.reward)
            values = self.targets["critics"](torch.cat((steps.later, action), dim=1)).float()
        later = values.amin(dim=1, keepdim=True) + bonus
        return steps.reward + problem.discount * (1.0 - steps.terminal) * later

    def actor_loss(self, output: Tensor, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor | None]:
        """Of what the actor gives for x, by the critics as they are; also the log-probabilities of SAC's actions."""
        critics, is_soft = self.critics.learner.model, self.problem.algorithm == "sac"
        action, log_prob = self.drawn(output.float(), noise) if is_soft else (output.float().tanh(), None)
        critics.requires_grad_(False)  # a third of the backward otherwise, for gradients that are thrown away
        judge = critics if is_soft else critics.get_submodule("first")
        values = judge(torch.cat((x, action), dim=1)).float()
        critics.requires_grad_(True)
        if log_prob is None:
            return -values.mean(), None
        least = values.amin(1, keepdim=True)
        return (self.log_temperature.detach().exp() * log_prob - least).mean(), log_prob

    def learn_(self, draws: torch.Generator) -> None:
        """One update; of TD3 only each second is of the actor, too."""
        problem = self.problem
        chosen = self.memory.draw(problem.batch_size, draws)
        noise = torch.randn(2, problem.batch_size, self.num_actions, generator=draws)
        self.num_updates += 1
        has_all = problem.algorithm == "sac" or self.num_updates % problem.policy_delay == 0
        (self._learn_all if has_all else self._learn_values)(chosen, noise)

    def _learn(self, chosen: Tensor, noise: Tensor, *, all_parts: bool) -> tuple[()]:
        problem, own = self.problem, (self.actor.learner.model, self.critics.learner.model)
        actor, critics = (in_mode(model, training=True) for model in own)
        steps = self.memory.steps(chosen)
        worth = self.worth(steps, noise[0])
        with self.numerics.forward():
            values = critics(torch.cat((steps.x, steps.action), dim=1))
        loss = F.mse_loss(values.float(), worth.expand(-1, 2))
        step_by_(loss, self.critics)
        self.loss += loss.detach()
        if all_parts:
            with self.numerics.forward():
                loss, log_prob = self.actor_loss(actor(steps.x), steps.x, noise[1])
            step_by_(loss, self.actor)
            if log_prob is not None:
                surplus = log_prob.detach().mean() - self.num_actions
                forget_gradients_(self.temperature_adam)
                (-self.log_temperature.exp() * surplus).sum().backward()
                self.temperature_adam.step()
            for name, target in self.targets.items():
                model = actor if name == "actor" else critics
                with torch.no_grad():
                    torch._foreach_lerp_(list(target.parameters()), list(model.parameters()), problem.target_rate)
        return ()

    def _own_tensors(self) -> list[Tensor]:
        """What an update changes beside the networks in training."""
        moments = self.temperature_adam.state.get(self.log_temperature, {}).values()
        targets = [part for target in self.targets.values() for part in target.parameters()]
        return [*targets, self.log_temperature, *moments]

    def state(self) -> dict[str, Any]:
        return {
            "targets": {name: target.state_dict() for name, target in self.targets.items()},
            "log_temperature": self.log_temperature.detach(),
            "temperature_adam": self.temperature_adam.state_dict(),
            "memory": self.memory.state(),
            "num_updates": self.num_updates,
        }

    def restore_(self, state: dict[str, Any]) -> None:
        for name, target in self.targets.items():
            target.load_state_dict(state["targets"][name])
        with torch.no_grad():
            self.log_temperature.copy_(state["log_temperature"])
        self.temperature_adam.load_state_dict(state["temperature_adam"])
        self.memory.restore_(state["memory"])
        self.num_updates = state["num_updates"]


def evaluate(agent: Agent, task: Task, *, seed: int, stage: int) -> dict[str, float]:
    """Whole episodes by the mean action; changes nothing that training depends on."""
    body = task.start(stream_seed(seed, "evaluation", stage))
    num_episodes = agent.problem.num_evaluated
    return {"score": mean_return(body, lambda seen: agent.largest * agent.act(seen, None), num_episodes=num_episodes)}


@dataclass(frozen=True)
class ReplayBatches:
    """What a method is shown between two stages: steps from the replay, for the actor or for the critics."""

    agent: Agent
    part: str
    stage: int

    def __iter__(self) -> Iterator[Batch]:
        agent, size, is_actor = self.agent, self.agent.problem.batch_size, self.part == "actor"
        draws = stream(agent.spec.seed, "boundary", self.stage)
        other = agent.critics if is_actor else agent.actor
        in_mode(other.learner.model, training=False)  # replayed graphs leave whatever mode there was
        for _ in range(-(-NUM_AT_BOUNDARY // size)):
            steps = agent.memory.steps(agent.memory.draw(size, draws))
            noise = torch.randn(steps.action.shape, generator=draws).to(steps.x.device)
            if is_actor:
                yield steps.x, torch.cat((steps.x, noise), dim=1)
            else:
                yield torch.cat((steps.x, steps.action), dim=1), agent.worth(steps, noise).expand(-1, 2)


def train(spec: RunSpec, problem: OffPolicy, journal: Journal, masks: torch.Generator) -> None:
    """From the start or the last checkpoint to the end, recording each segment and each stage."""
    agent, cursor, checkpoint = Agent(spec, problem, journal.device, masks), StepCursor(), journal.resume()
    parts = {"actor": agent.actor, "critics": agent.critics}
    if checkpoint is not None:
        with journal.restoring():
            for name, plasticity in parts.items():
                restore_snapshot_(plasticity, masks, checkpoint[name])
            agent.restore_(checkpoint["agent"])
            cursor = StepCursor(**checkpoint["cursor"])

    def snapshot() -> dict[str, Any]:
        own = {name: take_snapshot(plasticity, masks) for name, plasticity in parts.items()}
        return {**own, "agent": agent.state(), "cursor": vars(cursor)}

    try:
        while cursor.stage < problem.num_stages:
            task = problem.task.at(cursor.stage, spec.seed)
            num_before = len(cursor.scores)
            values = play_segment(agent, task, cursor, journal) | mean_score(cursor.scores[num_before:])
            agent.captures.note_why_eager(journal)
            check_finite(values.get("loss", 0.0), f"in segment {cursor.segment} (stage {cursor.stage})")
            journal.record_epoch(stage=cursor.stage, epoch=cursor.segment, **values)
            cursor.segment += 1
            if cursor.segment % problem.segments_per_stage == 0:
                with agent.actor.evaluation(), agent.critics.evaluation():
                    values = mean_score(cursor.scores) | evaluate(agent, task, seed=spec.seed, stage=cursor.stage)
                journal.record_stage(stage=cursor.stage, num_steps=cursor.num_steps, **task.facts(), **values)
                cursor.stage, cursor.scores = cursor.stage + 1, []
                for name, plasticity in parts.items() if cursor.stage < problem.num_stages else ():
                    data = ReplayBatches(agent, name, cursor.stage)
                    plasticity.end_stage(data)
                    plasticity.begin_stage(data)
                agent.captures.recheck_addresses()
            journal.checkpoint_if_due(snapshot)
        journal.checkpoint(snapshot)
    finally:
        for plasticity in parts.values():
            plasticity.pause()  # its hooks make a cycle, which would keep the memory of model and optimizer


def play_segment(agent: Agent, task: Task, cursor: StepCursor, journal: Journal) -> dict[str, float]:
    """Steps by a new body, an update each; the mean loss of the critics, if there were updates."""
    problem, seed = agent.problem, agent.spec.seed
    body = task.start(stream_seed(seed, "body", cursor.segment))
    chance, draws = stream(seed, "actions", cursor.segment), stream(seed, "replay", cursor.segment)
    seen, earned = body.reset(), 0.0
    num_before = agent.num_updates
    agent.loss.zero_()
    for _ in range(problem.steps_per_segment):
        if cursor.num_steps < problem.num_random_steps:
            action = 2 * torch.rand(body.num_actions, generator=chance).double().numpy() - 1
        else:
            action = agent.act(seen, chance)
        motion = body.step(agent.largest * action)
        agent.memory.add_(seen, action, motion)
        seen, earned, cursor.num_steps = motion.observation, earned + motion.reward, cursor.num_steps + 1
        if motion.terminal or motion.truncated:
            cursor.scores.append(earned)
            seen, earned = body.reset(), 0.0
        if cursor.num_steps > problem.num_random_steps:
            agent.learn_(draws)
        journal.write_progress(progress=cursor.num_steps / problem.num_steps, stage=cursor.stage)
    num_updates = agent.num_updates - num_before
    return {"loss": float(agent.loss) / num_updates} if num_updates else {}
