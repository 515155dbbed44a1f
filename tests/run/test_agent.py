"""The agent: what it remembers of a step, what it shows a method at a boundary, and in which mode it learns."""

import numpy as np
import pytest
import torch

from small_games import CPU, chain_spec
from supple.methods import UseAID
from supple.random import mask_stream
from supple_lab.rl.base import Step
from supple_lab.run.agent import NUM_AT_BOUNDARY, Agent, ReplayBatches, network_input
from supple_lab.run.capture import addresses_of
from supple_lab.run.dqn import new_agent
from supple_lab.run.step import tensors_of, weights_of
from supple_lab.streams import stream


def agent_of(tmp_path, spec, masks: torch.Generator | None = None) -> Agent:
    return new_agent(spec, spec.problem, tmp_path, masks or torch.Generator(), device=CPU)


def see_episodes(agent: Agent, number: int) -> None:
    """Episodes of two steps, paid by the step; every other one ends, and the others are cut off."""
    for episode in range(number):
        frames = [np.full(agent.replay.frame_shape, 3 * episode + k, dtype=np.uint8) for k in range(3)]
        agent.begin_(frames[0])
        agent.see_(1, Step(frames[1], reward=0.25 * episode, terminal=False, truncated=False, score=None))
        last, cut = episode % 2 == 0, episode % 2 == 1
        agent.see_(2, Step(frames[2], reward=-0.5 * episode, terminal=last, truncated=cut, score=0.0))


def test_a_cut_is_remembered_as_no_end_and_an_end_as_one(tmp_path):
    agent = agent_of(tmp_path, chain_spec())
    frame = np.zeros(agent.replay.frame_shape, dtype=np.uint8)
    for terminal in (False, True):
        agent.begin_(frame)
        agent.see_(0, Step(frame, reward=0.0, terminal=terminal, truncated=not terminal, score=0.0))
    cut, _, end, _ = agent.replay.columns["terminal"][:4]  # an episode of one step has two frames
    assert (cut, end) == (False, True)
    assert agent.replay.num_transitions == 2


def test_a_method_is_shown_states_with_what_actions_there_are_worth(tmp_path):
    """Reward and discounted best value of the next state, by the target network; at an end the reward alone."""
    agent = agent_of(tmp_path, chain_spec(discount=0.8))
    see_episodes(agent, 8)
    agent.learn_(stream(0, "replay", 0))  # so that the target network is another than the network
    shown = list(ReplayBatches(agent, seed=5, boundary=3))
    assert sum(len(states) for states, _ in shown) == NUM_AT_BOUNDARY
    draws, num_ends = stream(5, "boundary", 3), 0
    for states, action_and_worth in shown[:4]:
        drawn = agent.replay.sample(len(states), draws)
        assert torch.equal(states, network_input(drawn.stack_BSHW))
        for k, (action, worth) in enumerate(action_and_worth.tolist()):
            expected = drawn.reward_B[k].item()
            if not drawn.terminal_B[k]:
                with torch.no_grad():
                    expected += 0.8 * max(agent.target(network_input(drawn.next_stack_BSHW[k : k + 1]))[0].tolist())
            assert action == drawn.action_B[k]
            assert worth == pytest.approx(expected, rel=1e-5)
            num_ends += bool(drawn.terminal_B[k])
    assert 0 < num_ends < 4 * len(states)


def test_an_update_draws_the_masks_of_one_training_forward_and_acting_none(tmp_path):
    masks = torch.Generator().manual_seed(1)
    agent = agent_of(tmp_path, spec := chain_spec(UseAID(relu_prob=0.9)), masks)
    see_episodes(agent, 4)
    again, before = torch.Generator(), masks.get_state()
    again.set_state(before)
    with mask_stream(masks):
        agent.greedy("eval")
        assert torch.equal(masks.get_state(), before)
        agent.learn_(stream(0, "replay", 0))
    with mask_stream(again), torch.no_grad():
        agent.network.train()(torch.zeros(spec.problem.batch_size, spec.problem.num_stacked, *agent.replay.frame_shape))
    assert not torch.equal(masks.get_state(), before)
    assert torch.equal(masks.get_state(), again.get_state())


def test_first_update_moves_nothing_that_acting_reads(tmp_path):
    """On a GPU acting may have been captured before, and would be captured anew at the first boundary."""
    agent = agent_of(tmp_path, chain_spec())
    see_episodes(agent, 8)
    before = addresses_of(weights_of(agent.network)), len(tensors_of(agent.training))
    agent.learn_(stream(0, "replay", 0))
    assert addresses_of(weights_of(agent.network)) == before[0]
    assert len(tensors_of(agent.training)) > before[1]  # the optimizer's, made in that update
