"""DQN runs that take a second, on the chain and on a real game, and the agents they end with."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from supple.methods import Method, Vanilla
from supple_lab.models.mlp import MLP
from supple_lab.models.nature_dqn import NatureDQN
from supple_lab.optimizer import Adam
from supple_lab.rl.atari import Atari
from supple_lab.rl.base import Game
from supple_lab.rl.chain import Chain
from supple_lab.rl.dqn_problem import DQN
from supple_lab.run.agent import Agent
from supple_lab.run.dqn import new_agent, restore_agent_
from supple_lab.spec import RunSpec
from supple_lab.store.store import Store

needs_ale = pytest.mark.skipif(
    not all(map(find_spec, ("ale_py", "cv2"))),
    reason="ale-py or opencv is missing: pip install -e '.[rl]' in a checkout",
)
CPU = torch.device("cpu")
ON_CHAIN = DQN(
    game=Chain(),
    num_iterations=2,
    steps_per_iteration=150,
    steps_per_segment=50,
    evaluation_steps=40,
    num_random_steps=60,
    num_decay_steps=100,
    epsilon_floor=0.2,
    target_period=25,
    boundary_period=40,
    batch_size=16,
    discount=0.8,
    capacity=150,  # less than there are frames, so that the replay wraps around
    num_stacked=2,
)
ON_ATARI = replace(
    ON_CHAIN,
    game=Atari(title="Breakout", max_steps=15),
    steps_per_iteration=30,
    steps_per_segment=15,
    evaluation_steps=15,
    num_random_steps=35,
    target_period=10,
    boundary_period=12,
    num_stacked=4,
    discount=0.99,
)


def chain_spec(method: Method | None = None, *, game: Game | None = None, seed: int = 0, **changed) -> RunSpec:
    return RunSpec(
        problem=replace(ON_CHAIN, game=game or Chain(), **changed),
        model=MLP(width=64, num_hidden=2),
        method=method or Vanilla(),
        optimizer=Adam(learning_rate=1e-3),
        seed=seed,
    )


def atari_spec(method: Method | None = None, **changed) -> RunSpec:
    return RunSpec(
        problem=replace(ON_ATARI, **changed),
        model=NatureDQN(),
        method=method or Vanilla(),
        optimizer=Adam(learning_rate=6.25e-5, epsilon=1.5e-4),
        seed=0,
    )


def last_checkpoint(store: Store, spec: RunSpec) -> dict:
    checkpoint = store.folder(spec).latest_checkpoint(CPU)
    assert checkpoint is not None
    return checkpoint


def agent_at_the_end(store: Store, spec: RunSpec, folder: Path) -> Agent:
    """The agent of a finished run; its replay is empty."""
    agent = new_agent(spec, spec.problem, folder, torch.Generator(), device=CPU)
    restore_agent_(agent, last_checkpoint(store, spec))
    return agent
