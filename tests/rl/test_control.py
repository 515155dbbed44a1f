"""The control: a DQN run learns a game of known value, and does not where nothing can be learned."""

import math

import pytest
import torch

from small_games import CPU, agent_at_the_end, chain_spec
from supple.methods import UseAID, Vanilla
from supple_lab.rl.chain import Chain, Shuffled
from supple_lab.run.agent import Agent, network_input
from supple_lab.run.dqn import evaluate_agent, new_agent
from supple_lab.run.run import execute
from supple_lab.store.store import Store

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


def trained(tmp_path, spec) -> tuple[Agent, float]:
    """The agent that a run ends with, and its score at the last evaluation."""
    store = Store.create(tmp_path)
    assert execute(spec, store) == "done"
    return agent_at_the_end(store, spec, tmp_path), store.folder(spec).stage_log.read()[-1]["score"]


def played(agent: Agent) -> tuple[int, float, float]:
    """A game by the agent: its length, its score, and the value expected at its start."""
    environment = CHAIN.start(0)
    agent.stack.begin_(environment.reset())
    with torch.no_grad():
        expected = agent.network.eval()(network_input(agent.stack.frames_1SHW)).max().item()
    for length in range(1, environment.max_steps + 1):
        step = environment.step(agent.greedy("eval"))
        if step.over:
            return length, step.score, expected
        agent.stack.push_(step.frame)
    raise AssertionError("the game did not end")


# AID's masks are noise: nearer to the optimal value than to that of a player who loses one step. Without noise the
# value is the optimal one to 1e-6, and a learner that takes a cut for an end is 5e-3 away from it.
@pytest.mark.parametrize(
    ("method", "tolerance"),
    [(Vanilla(), 1e-3), (UseAID(relu_prob=0.999), CHAIN.optimal_value(DISCOUNT) * (1 - DISCOUNT) / 2)],
    ids=["vanilla", "aid"],
)
def test_dqn_reaches_the_optimum_of_the_chain(tmp_path, method, tolerance):
    agent, score_at_evaluation = trained(tmp_path, chain_spec(method, evaluation_epsilon=0.0, **LONG))
    length, score, expected = played(agent)
    assert (length, score, score_at_evaluation) == (CHAIN.num_places, 1.0, 1.0)
    assert abs(expected - CHAIN.optimal_value(DISCOUNT)) < tolerance


def test_an_evaluation_at_epsilon_1_scores_what_random_actions_do(tmp_path):
    spec = chain_spec(evaluation_epsilon=1.0, evaluation_steps=5000)
    agent = new_agent(spec, spec.problem, tmp_path, torch.Generator(), device=CPU)
    told = evaluate_agent(agent, seed=0, iteration=0, note_step=lambda: None)
    share = chance_at_random()
    assert abs(told["score"] - share) <= 5 * math.sqrt(share * (1 - share) / told["num_games"])


@pytest.mark.parametrize("num_games", [1, 2])
def test_a_single_game_has_no_deviation(tmp_path, num_games):
    game = Chain(num_places=1, num_actions=2)  # at epsilon 1 a game lasts three steps at most
    spec = chain_spec(game=game, evaluation_epsilon=1.0, evaluation_steps=1 if num_games == 1 else 4)
    agent = new_agent(spec, spec.problem, tmp_path, torch.Generator(), device=CPU)
    told = evaluate_agent(agent, seed=0, iteration=0, note_step=lambda: None)
    assert (told["num_games"] == 1) == (num_games == 1)
    assert ("score_deviation" in told) == (num_games > 1)


def chance_at_random() -> float:
    """Of reaching the end of the chain in time: so many right actions of those that a game has time for."""
    p, num_steps = 1 / CHAIN.num_actions, CHAIN.start(0).max_steps
    return sum(
        math.comb(num_steps, k) * p**k * (1 - p) ** (num_steps - k) for k in range(CHAIN.num_places, num_steps + 1)
    )


def test_dqn_does_not_learn_the_chain_from_shuffled_rewards(tmp_path):
    agent, _ = trained(tmp_path, chain_spec(game=Shuffled(game=CHAIN), **LONG))
    length, _, _ = played(agent)
    assert length > CHAIN.num_places
