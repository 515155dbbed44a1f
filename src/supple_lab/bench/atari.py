"""Environment steps per second of a DQN run, learning once a step: ours beside a loop in the style of CleanRL's."""

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from supple.methods import Method, UseAID, Vanilla
from supple.random import mask_stream
from supple_lab.bench.timing import Work, compare
from supple_lab.bench.training import ListingAID
from supple_lab.models.nature_dqn import NatureDQN
from supple_lab.optimizer import Adam
from supple_lab.precision import Numerics
from supple_lab.rl.atari import Atari
from supple_lab.rl.dqn_problem import DQN
from supple_lab.run.dqn import new_agent
from supple_lab.spec import RunSpec
from supple_lab.streams import stream
from supple_lab.sweep.shared_gpu import SharedGPU

GAME = "Breakout"
NUM_FILLED = 1_000  # random steps before the first that is timed
CAPACITY = 4_000  # frames; more change the memory that is taken, not the time
AT_ONCE = (1, 4, 8, 12)  # runs on one GPU
SECONDS_TO_PREPARE = 300.0  # processes that each import torch, fill a replay and capture
ALL_READY: Barrier
NEEDED = "the comparison needs gymnasium. Install it with: pip install -e '.[rl]' in a checkout"


@dataclass(frozen=True)
class AtariRow:
    """One candidate; if candidates took turns, its time over that of our ReLU run."""

    case: str
    candidate: str
    steps_per_second: float
    ratio: float | None
    ratio_quartiles: tuple[float, float] | None
    turns: int


def bench_atari(device: torch.device, *, seconds_per_case: float) -> Iterator[AtariRow]:
    """Single runs in turns; on a GPU also several of ours at once."""
    works: dict[str, Work] = {
        "ReLU": our_step(device, Vanilla()),
        "AID": our_step(device, UseAID(relu_prob=0.99)),
        "CleanRL's style, ReLU": baseline_step(device, nn.ReLU),
        "CleanRL's style, AID by the paper's listing": baseline_step(device, ListingAID),
    }
    for name, found in compare(works, base="ReLU", device=device, seconds=len(works) * seconds_per_case).items():
        yield AtariRow(f"{GAME}, one run", name, 1 / found.seconds, found.ratio, found.quartiles, found.turns)
    if device.type == "cuda":
        for number in AT_ONCE:
            rate = together(number, seconds=seconds_per_case)
            yield AtariRow(f"{GAME}, {number} at once", "AID", rate, None, None, 1)


def our_step(device: torch.device, method: Method, *, seed: int = 0) -> Callable[[], None]:
    """What a run does for each step of its environment, in the run's own order (runs/dqn.py)."""
    problem = DQN(game=Atari(title=GAME), capacity=CAPACITY)
    optimizer = Adam(learning_rate=6.25e-5, epsilon=1.5e-4)
    spec = RunSpec(problem=problem, model=NatureDQN(), method=method, optimizer=optimizer, seed=seed)
    masks, draws = torch.Generator(device).manual_seed(seed), stream(seed, "replay")
    agent = new_agent(spec, problem, Path(tempfile.gettempdir()), masks, device=device)
    environment, chance = problem.game.start(seed), np.random.default_rng(seed)
    over = True

    def take(choose: Callable[[], int], learn: Callable[[], None]) -> None:
        nonlocal over
        if over:
            agent.begin_(environment.reset())
        action = choose()
        learn()
        step = environment.step(action)
        agent.see_(action, step)
        over = step.over

    def step() -> None:
        with mask_stream(masks):
            take(lambda: agent.greedy("eval"), lambda: agent.learn_(draws))

    for _ in range(NUM_FILLED):
        take(lambda: int(chance.integers(agent.num_actions)), lambda: None)
    with Numerics.choose(device, "default").matmuls():
        step()  # captured here, on a GPU
    if agent.captures.why_eager:
        raise RuntimeError(f"a step cannot be captured: {agent.captures.why_eager[0]}")
    return step


def together(number: int, *, seconds: float) -> float:
    """Steps per second of so many runs on one GPU, each in a process of its own, as --per-gpu has them; all counted."""
    context, shared = multiprocessing.get_context("spawn"), SharedGPU()
    all_ready = context.Barrier(number, timeout=SECONDS_TO_PREPARE)
    try:
        with (
            mock.patch.dict(os.environ, shared.environment),
            ProcessPoolExecutor(number, context, begin_with_, (all_ready,)) as processes,
        ):
            speeds = processes.map(partial(play, seconds), range(number))
            processes.submit(int)  # or the pool may not see the process die that it began last
            return sum(speeds)
    finally:
        shared.stop()


def begin_with_(all_ready: Barrier) -> None:
    """In a process of a run: where it waits for the others before it is timed."""
    global ALL_READY
    ALL_READY = all_ready


def play(seconds: float, place: int) -> float:
    """One of the runs: its steps per second, from when all are ready."""
    device = torch.device("cuda")
    with Numerics.choose(device, "default").matmuls():
        step = our_step(device, UseAID(relu_prob=0.99), seed=place)
        ALL_READY.wait()
        began, num_steps = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            step()
            num_steps += 1
        return num_steps / (time.perf_counter() - began)


def baseline_step(device: torch.device, activation: Callable[[], nn.Module]) -> Callable[[], None]:
    """Gymnasium's stock wrappers, a replay of whole stacks, operator after operator."""
    torch.manual_seed(0)
    environment = baseline_environment()
    num_actions = environment.action_space.n
    shape = (CAPACITY, 4, 84, 84)
    states, next_states = np.zeros(shape, dtype=np.uint8), np.zeros(shape, dtype=np.uint8)
    actions, rewards, ends = np.zeros(CAPACITY, dtype=np.int64), np.zeros(CAPACITY), np.zeros(CAPACITY)
    network, target = (
        NatureDQN().build(activation, image_shape=shape[1:], num_classes=num_actions).to(device) for _ in range(2)
    )
    target.load_state_dict(network.state_dict())
    optimizer = torch.optim.Adam(network.parameters(), lr=6.25e-5, eps=1.5e-4)
    chance = np.random.default_rng(0)
    state, _ = environment.reset(seed=0)
    num_steps = 0

    def remember(action: int) -> None:
        nonlocal state, num_steps
        following, reward, terminated, truncated, _ = environment.step(action)
        place = num_steps % CAPACITY
        states[place], next_states[place], actions[place] = state, following, action
        rewards[place], ends[place] = np.sign(reward), terminated
        num_steps += 1
        state = environment.reset()[0] if terminated or truncated else following

    def learn() -> None:
        drawn = chance.integers(min(num_steps, CAPACITY), size=32)
        s, n, a, r, e = (
            torch.as_tensor(part[drawn], device=device) for part in (states, next_states, actions, rewards, ends)
        )
        with torch.no_grad():
            worth = r.float() + 0.99 * target(n.float()).max(dim=1).values * (1 - e.float())
        value = network(s.float()).gather(1, a[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(value, worth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if num_steps % 100 == 0:
            loss.item()  # as logged there

    def step() -> None:
        with torch.no_grad():
            values = network(torch.Tensor(np.array(state)[None]).to(device))
        remember(int(values.argmax(dim=1).cpu().numpy()[0]))
        learn()

    for _ in range(NUM_FILLED):
        remember(int(chance.integers(num_actions)))
    return step


def baseline_environment() -> Any:
    """The game with gymnasium's own preprocessing, by the same rules as ours."""
    try:
        import ale_py
        import gymnasium
        from gymnasium import wrappers
    except ImportError as error:
        raise ModuleNotFoundError(NEEDED) from error
    gymnasium.register_envs(ale_py)
    environment = gymnasium.make(f"ALE/{GAME}-v5", frameskip=1, repeat_action_probability=0.25)
    environment = wrappers.RecordEpisodeStatistics(environment)
    environment = wrappers.AtariPreprocessing(environment, noop_max=0, frame_skip=4, screen_size=84)
    return wrappers.FrameStackObservation(environment, 4)
