"""Environment steps per second of a DQN run, learning once a step: ours beside a loop in the style of CleanRL's."""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from supple.mask_stream import mask_stream
from supple.methods.activations import UseAID
from supple.methods.base import Method
from supple.methods.vanilla import Vanilla
from supple_lab.bench.timing import Work, ratio_quartiles, take_turns
from supple_lab.bench.training import ListingAID
from supple_lab.models.nature_dqn import NatureDQN
from supple_lab.rl.atari import Atari
from supple_lab.runs.dqn import new_agent, new_player
from supple_lab.runs.dqn_problem import DQN
from supple_lab.runs.optimizer import Adam
from supple_lab.runs.precision import Numerics
from supple_lab.runs.spec import RunSpec
from supple_lab.streams import stream

GAME = "Breakout"
NUM_FILLED = 1_000  # random steps before the first that is timed
CAPACITY = 4_000  # frames; more change the memory that is taken, not the time
AT_ONCE = (1, 4, 8, 16)  # runs on one GPU
NEEDED = "the comparison needs gymnasium. Install it with: pip install 'supple[rl]'"


@dataclass(frozen=True)
class AtariRow:
    """One candidate; where candidates took turns, its time over that of our ReLU run."""

    case: str
    candidate: str
    steps_per_second: float
    ratio: float | None
    ratio_quartiles: tuple[float, float] | None
    turns: int


def bench_atari(device: torch.device, *, seconds_per_case: float) -> Iterator[AtariRow]:
    """Single runs in turns; on a GPU also several of ours at once."""
    with ExitStack() as at_end:
        works: dict[str, Work] = {
            "ReLU": our_step(device, Vanilla(), at_end),
            "AID": our_step(device, UseAID(relu_prob=0.99), at_end),
            "CleanRL's style, ReLU": peoples_step(device, nn.ReLU),
            "CleanRL's style, AID by the paper's listing": peoples_step(device, ListingAID),
        }
        timings = take_turns(works, device=device, seconds=len(works) * seconds_per_case)
    for name, timing in timings.items():
        low, middle, high = ratio_quartiles(timing, timings["ReLU"])
        yield AtariRow(f"{GAME}, one run", name, 1 / timing.median, middle, (low, high), len(timing.seconds))
    if device.type == "cuda":
        for number in AT_ONCE:
            rate = together(device, number, seconds=seconds_per_case)
            yield AtariRow(f"{GAME}, {number} at once in threads", "AID", rate, None, None, 1)


def our_step(device: torch.device, method: Method, at_end: ExitStack, *, seed: int = 0) -> Callable[[], None]:
    """What a run does for each step of its environment, in the run's own order (runs/dqn.py)."""
    problem = DQN(game=Atari(title=GAME), capacity=CAPACITY)
    optimizer = Adam(learning_rate=6.25e-5, epsilon=1.5e-4)
    spec = RunSpec(problem=problem, model=NatureDQN(), method=method, optimizer=optimizer, seed=seed)
    masks, draws = torch.Generator(device).manual_seed(seed), stream(seed, "replay")
    agent = new_agent(spec, problem, Path(tempfile.gettempdir()), masks, device=device)
    player, chance = at_end.enter_context(new_player(problem.game, device)), np.random.default_rng(seed)
    player.start(seed)
    over = True

    def take(choose: Callable[[], int], learn: Callable[[], None]) -> None:
        nonlocal over
        if over:
            agent.begin_(player.reset())
        action = choose()
        player.begin_step(action)
        learn()
        step = player.finish_step()
        agent.see_(action, step)
        over = step.over

    def step() -> None:
        with mask_stream(masks):
            take(lambda: agent.greedy("eval"), lambda: agent.learn_(draws))

    for _ in range(NUM_FILLED):
        take(lambda: int(chance.integers(agent.num_actions)), lambda: None)
    with Numerics.choose(device, "default").matmuls():
        step()  # captured here, on a GPU
    if agent.obstacles:
        raise RuntimeError(f"a step cannot be captured: {agent.obstacles[0]}")
    return step


def together(device: torch.device, number: int, *, seconds: float) -> float:
    """Steps per second of so many runs in threads of this process, each on a stream of its own, all counted."""
    counts, ready, start = [0] * number, threading.Barrier(number + 1), threading.Barrier(number + 1)
    ended = threading.Event()

    def play(place: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream(device)), ExitStack() as at_end:
            step = our_step(device, UseAID(relu_prob=0.99), at_end, seed=place)
            ready.wait()
            start.wait()
            while not ended.is_set():
                step()
                counts[place] += 1

    threads = [threading.Thread(target=play, args=(place,)) for place in range(number)]
    for thread in threads:
        thread.start()
    ready.wait()
    start.wait()
    began = time.perf_counter()
    time.sleep(seconds)
    total, elapsed = sum(counts), time.perf_counter() - began
    ended.set()
    for thread in threads:
        thread.join()
    return total / elapsed


def peoples_step(device: torch.device, activation: Callable[[], nn.Module]) -> Callable[[], None]:
    """Gymnasium's stock wrappers, a replay of whole stacks, operator after operator."""
    torch.manual_seed(0)
    environment = peoples_environment()
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


def peoples_environment() -> Any:
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
