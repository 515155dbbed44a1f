"""The control: a DQN run learns a game of known value, and does not where nothing can be learned."""

import pytest
import torch

from small_games import agent_at_the_end, chain_spec
from supple.methods.activations import UseAID
from supple.methods.vanilla import Vanilla
from supple_lab.rl.chain import Chain
from supple_lab.rl.shuffled import Shuffled
from supple_lab.runs.agent import network_input
from supple_lab.runs.run import execute
from supple_lab.runs.store import Store

CHAIN, DISCOUNT = Chain(), 0.8
LONG = {
    "num_iterations": 1,
    "steps_per_iteration": 2200,
    "steps_per_segment": 700,
    "num_random_steps": 700,
    "num_decay_steps": 300,
    "target_period": 25,
    "boundary_period": 10_000,
    "batch_size": 32,
    "capacity": 3000,
}


def played(tmp_path, spec) -> tuple[int, float, float]:
    """A game by the agent that a run ends with: its length, its score, and the value expected at its start."""
    store = Store.create(tmp_path)
    assert execute(spec, store) == "done"
    agent, environment = agent_at_the_end(store, spec, tmp_path), CHAIN.start(0)
    agent.stack.begin_(environment.reset())
    with torch.no_grad():
        expected = agent.network.eval()(network_input(agent.stack.frames_1SHW)).max().item()
    for length in range(1, environment.max_steps + 1):
        step = environment.step(agent.greedy("eval"))
        if step.over:
            return length, step.score, expected
        agent.stack.push_(step.frame)
    raise AssertionError("the game did not end")


@pytest.mark.parametrize("method", [Vanilla(), UseAID(relu_prob=0.999)], ids=["vanilla", "aid"])
def test_dqn_reaches_the_optimum_of_the_chain(tmp_path, method):
    length, score, expected = played(tmp_path, chain_spec(method, **LONG))
    assert (length, score) == (CHAIN.num_places, 1.0)
    # Nearer to the optimal value than to that of a player who loses one step.
    assert abs(expected - CHAIN.optimal_value(DISCOUNT)) < CHAIN.optimal_value(DISCOUNT) * (1 - DISCOUNT) / 2


def test_dqn_does_not_learn_the_chain_from_shuffled_rewards(tmp_path):
    length, _, _ = played(tmp_path, chain_spec(game=Shuffled(game=CHAIN), **LONG))
    assert length > CHAIN.num_places
