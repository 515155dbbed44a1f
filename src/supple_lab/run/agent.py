"""The agent of DQN (Mnih et al. 2015): its loss, the frames that it sees, acting and learning."""

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.learner import Batch
from supple_lab.rl.base import Frame, Step
from supple_lab.rl.dqn_problem import DQN, Mode
from supple_lab.rl.replay import Replay, Transitions
from supple_lab.run.captures import Captures
from supple_lab.run.network import in_mode
from supple_lab.run.step import TrainState, step_by_
from supple_lab.streams import stream


def q_loss(values_BA: Tensor, next_values_BA: Tensor, transitions: Transitions, *, discount: float) -> Tensor:
    """Huber, between the value of what was done and what it turned out to be worth; the mean over the batch.

    ``next_values_BA`` are the target network's; a terminal step has no next value."""
    return huber(values_BA, transitions.action_B, worth(next_values_BA, transitions, discount=discount))


def worth(next_values_BA: Tensor, transitions: Transitions, *, discount: float) -> Tensor:
    """What each step turned out to be worth: its reward, and the best that the next state promises."""
    future_B = next_values_BA.detach().amax(dim=1) * ~transitions.terminal_B
    return transitions.reward_B + discount * future_B


def huber(values_BA: Tensor, action_B: Tensor, worth_B: Tensor) -> Tensor:
    """Mean Huber loss, with its corner at 1, of the values of the actions taken."""
    return F.smooth_l1_loss(values_BA.gather(1, action_B[:, None]).squeeze(1), worth_B)


class Stack:
    """Always the same tensor, so that a captured forward can read it; zeros stand for frames before the episode."""

    def __init__(self, num_stacked: int, frame_shape: tuple[int, int], *, device: torch.device) -> None:
        self.frames_1SHW = torch.zeros(1, num_stacked, *frame_shape, dtype=torch.uint8, device=device)

    def begin_(self, frame: Frame) -> Tensor:
        self.frames_1SHW.zero_()
        return self._show_(frame)

    def push_(self, frame: Frame) -> Tensor:
        self.frames_1SHW[:, :-1] = self.frames_1SHW[:, 1:].clone()
        return self._show_(frame)

    def _show_(self, frame: Frame) -> Tensor:
        self.frames_1SHW[0, -1].copy_(torch.from_numpy(frame))
        return self.frames_1SHW


# Convolutions of stacked frames are a tenth faster on a CPU core than with channels first, the way there included.
FORMAT = torch.channels_last
NUM_AT_BOUNDARY = 2048  # steps drawn for a method at a boundary: ReDo scores up to 2,000


class Agent:
    """Acting and learning are each one piece of work on tensors that stay in place: on a GPU, one graph each."""

    def __init__(self, training: TrainState, problem: DQN, replay: Replay, *, num_actions: int) -> None:
        device = training.numerics.device
        self.training, self.problem, self.replay, self.num_actions = training, problem, replay, num_actions
        self.target = copy.deepcopy(training.learner.model).train(problem.target_mode == "train")
        self.stack = Stack(problem.num_stacked, replay.frame_shape, device=device)
        self._draw_B5 = torch.zeros(problem.batch_size, 5, dtype=torch.float64, device=device)
        self._action = torch.zeros((), dtype=torch.long, device=device)
        self.captures = Captures(training)
        self._learn = self.captures.learning(self._learning_work)
        self._act = {mode: self.captures.acting(partial(self._acting_work, mode)) for mode in get_args(Mode)}

    @property
    def network(self) -> nn.Module:
        return self.training.learner.model

    def begin_(self, frame: Frame) -> None:
        self.replay.begin(frame)
        self.stack.begin_(frame)

    def see_(self, action: int, step: Step) -> None:
        self.replay.add(action, step.reward, frame=step.frame, terminal=step.terminal)
        self.stack.push_(step.frame)

    def act(self, mode: Mode, chance: random.Random, *, epsilon: float) -> int:
        """An action: at random with probability epsilon, else the greedy one."""
        if chance.random() < epsilon:
            return chance.randrange(self.num_actions)
        return self.greedy(mode)

    def greedy(self, mode: Mode) -> int:
        """The action of the highest value in the state that is seen now."""
        self._act[mode]()
        return int(self._action)

    def learn_(self, draws: torch.Generator) -> None:
        self._draw_B5.copy_(self.replay.draw(self.problem.batch_size, draws))
        self._learn()

    @torch.no_grad()
    def copy_to_target_(self) -> None:
        theirs, ours = self.target.state_dict(), self.network.state_dict()
        torch._foreach_copy_(list(theirs.values()), list(ours.values()))

    def cross_boundary_(self, data: "ReplayBatches") -> None:
        """Let the method do what it does between two stages; the optimizer and the target network stay."""
        plasticity = self.training.plasticity
        plasticity.end_stage(data)
        plasticity.begin_stage(data)
        self.captures.recheck_addresses()

    def _acting_work(self, mode: Mode) -> tuple[()]:
        in_mode(self.network, training=mode == "train")
        with torch.no_grad(), self.training.numerics.forward():
            values_1A = self.network(network_input(self.stack.frames_1SHW))
            self._action.copy_(values_1A.argmax())
        return ()

    def _learning_work(self) -> tuple[()]:
        batch, numerics = self.replay.gather(self._draw_B5), self.training.numerics
        in_mode(self.network, training=True)
        with numerics.forward():
            with torch.no_grad():
                next_values_BA = self.target(network_input(batch.next_stack_BSHW))
            values_BA = self.network(network_input(batch.stack_BSHW))
            loss = q_loss(values_BA, next_values_BA, batch, discount=self.problem.discount)
        step_by_(loss, self.training.plasticity)
        with torch.no_grad():
            self.training.sums.add_(torch.stack((loss.detach(), values_BA.amax(dim=1).mean())).double())
        return ()


@dataclass(frozen=True)
class ReplayBatches:
    """What a method is shown at a boundary: steps from the replay, as states and what actions there are worth."""

    agent: Agent
    seed: int
    boundary: int  # counted from 1

    @torch.no_grad()
    def __iter__(self) -> Iterator[Batch]:
        agent, problem = self.agent, self.agent.problem
        draws = stream(self.seed, "boundary", self.boundary)
        for _ in range(-(-NUM_AT_BOUNDARY // problem.batch_size)):
            batch = agent.replay.sample(problem.batch_size, draws)
            next_values_BA = agent.target(network_input(batch.next_stack_BSHW))
            yield states_and_worths(batch, next_values_BA, discount=problem.discount)


def states_and_worths(steps: Transitions, next_values_BA: Tensor, *, discount: float) -> Batch:
    """Steps as ``loss_on_worth`` reads them: the states, and for each the action taken and what it is worth."""
    worth_B = worth(next_values_BA, steps, discount=discount)
    return network_input(steps.stack_BSHW), torch.stack((steps.action_B.float(), worth_B), dim=1)


def loss_on_worth(values_BA: Tensor, action_and_worth_B2: Tensor) -> Tensor:
    """The learner's loss, for methods that take gradients of their own: on what ``ReplayBatches`` shows."""
    action_B, worth_B = action_and_worth_B2.unbind(dim=1)
    return huber(values_BA, action_B.long(), worth_B)


def network_input(stack_BSHW: Tensor) -> Tensor:
    """Frames of bytes as the networks read them: numbers, still from 0 to 255."""
    return stack_BSHW.contiguous(memory_format=FORMAT).float()
