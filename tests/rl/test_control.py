"""The control: DQN from these parts learns a game of known value, and does not where nothing can be learned."""

import pytest
import torch

from supple.layers.aid import AID
from supple_lab.models.mlp import MLP
from supple_lab.rl.chain import Chain
from supple_lab.rl.exploration import Exploration
from supple_lab.rl.q_loss import q_loss
from supple_lab.rl.replay import Replay
from supple_lab.rl.shuffled import Shuffled
from supple_lab.rl.stack import Stack

CHAIN, DISCOUNT, CPU = Chain(), 0.8, torch.device("cpu")
NUM_STEPS, NUM_RANDOM, TARGET_PERIOD, NUM_STACKED = 2200, 700, 25, 2


def trained(game, activation, seed: int = 0) -> torch.nn.Module:
    """DQN at replay ratio 1, in its shortest form."""
    torch.manual_seed(seed)
    environment = game.start(seed)
    replay = Replay(NUM_STEPS, environment.frame_shape, num_stacked=NUM_STACKED)
    stack = Stack(NUM_STACKED, environment.frame_shape, device=CPU)
    shape = {"image_shape": (NUM_STACKED, *environment.frame_shape), "num_classes": environment.num_actions}
    network, target = (MLP(width=64, num_hidden=2).build(activation, **shape) for _ in range(2))
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-4, fused=True)
    exploration = Exploration(num_random_steps=NUM_RANDOM, num_decay_steps=300, floor=0.2)
    draws = torch.Generator().manual_seed(seed)
    is_over = True
    for step_index in range(NUM_STEPS):
        if is_over:
            frame = environment.reset()
            replay.begin(frame)
            stack.begin_(frame)
        if torch.rand((), generator=draws) < exploration.epsilon(step_index):
            action = int(torch.randint(environment.num_actions, (), generator=draws))
        else:
            action = greedy(network, stack)
        step = environment.step(action)
        stack.push_(step.frame)
        replay.add(action, step.reward, frame=step.frame, terminal=step.terminal, truncated=step.truncated)
        is_over = step.over
        if step_index % TARGET_PERIOD == 0:
            target.load_state_dict(network.state_dict())
        if step_index >= NUM_RANDOM:
            batch = replay.sample(32, draws)
            with torch.no_grad():
                next_values = target.eval()(batch.next_stack_BSHW.float())
            loss = q_loss(network.train()(batch.stack_BSHW.float()), next_values, batch, discount=DISCOUNT)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network.eval()


@torch.no_grad()
def greedy(network, stack: Stack) -> int:
    return int(network.eval()(stack.frames_1SHW.float()).argmax())


@torch.no_grad()
def play(network) -> tuple[int, float, float]:
    """A game by the network: its length, its score, and the value expected at its start."""
    environment, stack = CHAIN.start(0), Stack(NUM_STACKED, (1, CHAIN.num_places), device=CPU)
    stack.begin_(environment.reset())
    expected = network(stack.frames_1SHW.float()).max().item()
    for length in range(1, environment.max_steps + 1):
        step = environment.step(greedy(network, stack))
        if step.over:
            return length, step.score, expected
        stack.push_(step.frame)
    raise AssertionError("the game did not end")


@pytest.mark.parametrize("activation", [torch.nn.ReLU, lambda: AID(p=0.99)], ids=["relu", "aid"])
def test_dqn_reaches_the_optimum_of_the_chain(activation):
    length, score, expected = play(trained(CHAIN, activation))
    assert (length, score) == (CHAIN.num_places, 1.0)
    # Nearer to the optimal value than to that of a player who loses one step.
    assert abs(expected - CHAIN.optimal_value(DISCOUNT)) < CHAIN.optimal_value(DISCOUNT) * (1 - DISCOUNT) / 2


def test_dqn_does_not_learn_the_chain_from_shuffled_rewards():
    length, _, _ = play(trained(Shuffled(game=CHAIN), torch.nn.ReLU))
    assert length > CHAIN.num_places
