"""The agent: what it remembers of a step."""

import numpy as np
import torch

from small_games import CPU, chain_spec
from supple_lab.rl.base import Step
from supple_lab.runs.dqn import new_agent


def test_a_cut_is_remembered_as_no_end_and_an_end_as_one(tmp_path):
    spec = chain_spec()
    agent = new_agent(spec, spec.problem, tmp_path, torch.Generator(), device=CPU)
    frame = np.zeros(agent.replay.frame_shape, dtype=np.uint8)
    for terminal in (False, True):
        agent.begin_(frame)
        agent.see_(0, Step(frame, reward=0.0, terminal=terminal, truncated=not terminal, score=0.0))
    cut, _, end, _ = agent.replay.columns["terminal"][:4]  # an episode of one step has two frames
    assert (cut, end) == (False, True)
    assert agent.replay.num_transitions == 2
