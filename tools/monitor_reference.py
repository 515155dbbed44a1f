"""Monitor reference: small trainings, healthy and ruined, with what a Monitor read and what became of them.

    python tools/monitor_reference.py OUT.jsonl --jobs 16     # writes a line a training; goes on where it was stopped

A training is a configuration (network, regime, variant) with a seed: NUM_STAGES stages, each with data of its own. At
the end of each stage it writes what the Monitor read in it, a reading in evaluation mode of the network and of a fresh
one on the stage's data, and the verdict of `supple.plasticity_gap` on the data of the next stage.

The rules, written before any such training was run:

- A training is *ruined* at the first stage whose verdict is "plasticity lost". The regime's name decides nothing.
- It is *healthy* if every verdict is "plastic" or "nothing to learn". It is *undecided*, and counted apart, if it is
  not ruined and a verdict is "not decided"; *too early*, and counted apart, if it is ruined at the first stage's end.
- A ruined training is *noticed* if a warning came in a stage before that at whose end it is ruined: one stage earlier.
- A healthy training is *warned of* if a warning came in any of its stages.
- Configurations, not seeds, are split into two halves by a hash of their names. Rules of warning are chosen on the half
  "choose" alone. Rates are reported on the half "report", once, with Clopper-Pearson bounds over trainings.

The rules have not changed since. The settings have: after a dozen trial trainings with seed 0 (healthy of each network;
worn of mlp and dqn; dead, saturated, growth and rank of mlp; rate_too_high of ppo) the ViT became smaller, the stages
eight, the rates of worn higher, and damage fuller (saturated by bias alone) but for growth, which became milder. So
seed 0 of these is not blind: by default the seeds begin at 1.
"""

import argparse
import copy
import hashlib
import itertools
import json
import math
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

import supple
from supple.unchanged import undisturbed

NUM_STAGES, STAGE_STEPS, READINGS = 8, 180, 3  # readings of training forwards a stage
NUM_IMAGES, BATCH = 256, 32
GAP = {"steps": 120, "seeds": 3, "lr": 3e-3}  # for every training alike, whatever its own learning rate
NUM_STATES, NUM_ACTIONS, NUM_INPUTS, DISCOUNT = 64, 4, 32, 0.9

Batches = list[tuple[Tensor, ...]]
Loss = Callable[..., Tensor]
Make = Callable[[], nn.Module]


@dataclass(frozen=True, kw_only=True)
class Regime:
    """How a training is led; one value of ``lr`` a variant."""

    lr: tuple[float, float]
    stages: Literal["inputs", "labels", "classes"] = "inputs"  # what is new in a stage of a supervised training
    reuse: int = 1  # how many times more updates an agent makes of each experience
    damage: Literal["", "dead", "saturated", "rank", "growth"] = ""
    activation: type[nn.Module] = nn.ReLU


REGIMES = {
    "healthy": Regime(lr=(3e-4, 1e-3)),
    "rate_too_low": Regime(lr=(1e-6, 1e-5)),
    "rate_too_high": Regime(lr=(3e-2, 1e-1)),
    "forgetting": Regime(lr=(1e-3, 3e-3), stages="classes"),
    "worn": Regime(lr=(1e-2, 2e-2), stages="labels", reuse=8),
    "dead": Regime(lr=(3e-4, 1e-3), damage="dead"),
    "saturated": Regime(lr=(3e-4, 1e-3), damage="saturated", activation=nn.Tanh),
    "rank": Regime(lr=(3e-4, 1e-3), damage="rank"),
    "growth": Regime(lr=(3e-4, 1e-3), damage="growth"),
}
NETWORKS = ("mlp", "cnn", "vit", "dqn", "ppo")


@dataclass(frozen=True, kw_only=True)
class Configuration:
    network: str
    regime: str
    variant: int

    @property
    def name(self) -> str:
        return f"{self.network} {self.regime} {self.variant}"

    @property
    def half(self) -> str:
        return ("choose", "report")[hashlib.sha256(self.name.encode()).digest()[0] % 2]


def configurations() -> list[Configuration]:
    return [
        Configuration(network=network, regime=regime, variant=variant)
        for network, regime, variant in itertools.product(NETWORKS, REGIMES, (0, 1))
    ]


# Networks.


class Block(nn.Module):
    """Attention and MLP, each behind a norm."""

    def __init__(self, width: int, activation: type[nn.Module]) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), activation(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norms[1](x))


class Vit(nn.Module):
    """Sixteen patches of 2x2 pixels."""

    def __init__(self, activation: type[nn.Module], width: int = 24) -> None:
        super().__init__()
        self.embed = nn.Conv2d(1, width, 2, stride=2)
        self.place = nn.Parameter(0.02 * torch.randn(16, width))
        self.block = Block(width, activation)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.embed(images).flatten(2).transpose(1, 2) + self.place
        return self.head(self.norm(self.block(tokens)).mean(1))


def make_network(name: str, activation: type[nn.Module]) -> nn.Module:
    if name == "vit":
        return Vit(activation)
    if name == "cnn":
        return nn.Sequential(
            *(nn.Conv2d(1, 8, 3, padding=1), activation(), nn.Conv2d(8, 16, 3, stride=2, padding=1), activation()),
            *(nn.Flatten(), nn.Linear(256, 64), activation(), nn.Linear(64, 10)),
        )
    sizes = {"mlp": (64, 10), "dqn": (NUM_INPUTS, NUM_ACTIONS), "ppo": (NUM_INPUTS, NUM_ACTIONS + 1)}
    num_inputs, num_outputs = sizes[name]
    return nn.Sequential(
        *(nn.Flatten(), nn.Linear(num_inputs, 64), activation(), nn.Linear(64, 64), activation()),
        nn.Linear(64, num_outputs),
    )


def damage_(network: nn.Module, kind: str, share: float) -> None:
    """Spoil this share of each layer that feeds an activation."""
    chains = (list(part) for part in network.modules() if isinstance(part, nn.Sequential))
    pairs = (pair for chain in chains for pair in itertools.pairwise(chain))
    for layer in [a for a, b in pairs if isinstance(a, nn.Linear | nn.Conv2d) and isinstance(b, nn.ReLU | nn.Tanh)]:
        weight, bias = layer.weight.data, layer.bias.data
        count = round(share * len(weight))
        if kind == "dead":
            bias[:count] = -100.0
        elif kind == "saturated":
            bias[:count] = 100.0
        elif kind == "rank":
            left, values, right = torch.linalg.svd(weight.flatten(1), full_matrices=False)
            values[max(1, round((1.0 - share) * len(values))) :] = 0.0
            weight.copy_((left * values @ right).view_as(weight))
        elif kind == "growth":
            weight *= 3.0**share


# Problems: the data of a stage for the gap, and the losses that a training goes through.


@dataclass(frozen=True)
class Stage:
    data: Batches
    loss: Loss
    losses: Callable[[nn.Module], Iterator[Tensor]]  # without end, one for each update


def supervised_stage(number: int, *, seed: int, new: str, is_flat: bool) -> Stage:
    """Digits with permuted pixels, random labels, or two classes of ten."""
    generator = torch.Generator().manual_seed(1000 * seed + number)
    images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
    images = images.float() / 16.0
    if new == "classes":
        chosen = (labels // 2 == number % 5).nonzero().flatten()
        images, labels = images[chosen], labels[chosen]
    chosen = torch.randperm(len(images), generator=generator)[:NUM_IMAGES]
    images, labels = images[chosen], labels[chosen]
    if new == "inputs":
        images = images[:, torch.randperm(64, generator=generator)]
    if new == "labels":
        labels = torch.randint(10, labels.shape, generator=generator)
    images = images if is_flat else images.view(-1, 1, 8, 8)
    data = list(zip(images.split(BATCH), labels.split(BATCH), strict=True))

    def losses(network: nn.Module) -> Iterator[Tensor]:
        while True:
            for index in torch.randperm(len(data), generator=generator).tolist():
                x, y = data[index]
                yield F.cross_entropy(network(x), y)

    return Stage(data, F.cross_entropy, losses)


class World:
    """A random Markov decision process: where actions lead and what they pay, states seen as random vectors."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.next = torch.randint(NUM_STATES, (NUM_STATES, NUM_ACTIONS), generator=self.generator)
        self.reward = torch.randn(NUM_STATES, NUM_ACTIONS, generator=self.generator)
        self.seen = torch.randn(NUM_STATES, NUM_INPUTS, generator=self.generator)
        self.values = torch.zeros(NUM_STATES, NUM_ACTIONS)  # of the best policy
        for _ in range(100):
            self.values = self.reward + DISCOUNT * self.values.amax(1)[self.next]

    def draw(self, high: int, shape: tuple[int, ...]) -> Tensor:
        return torch.randint(high, shape, generator=self.generator)


def dqn_stage(number: int, *, seed: int, reuse: int) -> Stage:
    world = World(1000 * seed + number)

    def losses(network: nn.Module) -> Iterator[Tensor]:
        """Q-learning from replay with a target network; the policy is random one time in five."""
        states, replay = world.draw(NUM_STATES, (16,)), torch.zeros(0, 2, dtype=torch.long)
        target = copy.deepcopy(network).eval()
        for update in itertools.count():
            if update % reuse == 0:
                with torch.no_grad():
                    greedy = network(world.seen[states]).argmax(1)
                actions = torch.where(world.draw(5, (16,)) == 0, world.draw(NUM_ACTIONS, (16,)), greedy)
                replay = torch.cat([replay, torch.stack([states, actions], 1)])[-4096:]
                states = world.next[states, actions]
            if update % 25 == 0:
                target.load_state_dict(network.state_dict())
            at, action = replay[world.draw(len(replay), (64,))].T
            with torch.no_grad():
                ahead = target(world.seen[world.next[at, action]]).amax(1)
            value = network(world.seen[at]).gather(1, action[:, None])[:, 0]
            yield F.smooth_l1_loss(value, world.reward[at, action] + DISCOUNT * ahead)

    return Stage(list(zip(world.seen.split(16), world.values.split(16), strict=True)), F.smooth_l1_loss, losses)


def actor_critic_loss(output: Tensor, action: Tensor, value: Tensor) -> Tensor:
    return F.cross_entropy(output[:, :-1], action) + 0.5 * F.mse_loss(output[:, -1], value)


def chances_of(output: Tensor) -> Tensor:
    """How likely each action is; all alike once the network has diverged."""
    return output[:, :-1].softmax(1).nan_to_num(1.0 / NUM_ACTIONS)


def ppo_stage(number: int, *, seed: int, reuse: int) -> Stage:
    world = World(1000 * seed + number)

    def losses(network: nn.Module) -> Iterator[Tensor]:
        """Clipped policy gradient on rollouts of 16 steps in 16 worlds, four epochs, more with reuse."""
        states = world.draw(NUM_STATES, (16,))
        while True:
            path = []
            with torch.no_grad():
                for _ in range(16):
                    output = network(world.seen[states])
                    action = torch.multinomial(chances_of(output), 1, generator=world.generator)[:, 0]
                    chance = output[:, :-1].log_softmax(1).gather(1, action[:, None])[:, 0]
                    path.append((states, action, chance, output[:, -1]))
                    states = world.next[states, action]
                ahead, returns = network(world.seen[states])[:, -1], []
                for at, action, _, value in reversed(path):
                    ahead = world.reward[at, action] + DISCOUNT * ahead
                    returns.append(ahead)
                    ahead = 0.95 * ahead + 0.05 * value
            at, action, chance, value = (torch.cat(part) for part in zip(*path, strict=True))
            goal = torch.cat(returns[::-1])
            gain = (goal - value - (goal - value).mean()) / ((goal - value).std() + 1e-8)
            for _ in range(4 * reuse):
                for rows in torch.randperm(len(at), generator=world.generator).split(64):
                    output = network(world.seen[at[rows]])
                    now = output[:, :-1].log_softmax(1).gather(1, action[rows][:, None])[:, 0]
                    ratio = (now - chance[rows]).exp()
                    clipped = torch.minimum(ratio * gain[rows], ratio.clamp(0.8, 1.2) * gain[rows])
                    yield 0.5 * F.mse_loss(output[:, -1], goal[rows]) - clipped.mean()

    best = world.values.argmax(1), world.values.amax(1)
    return Stage(
        list(zip(world.seen.split(16), *(part.split(16) for part in best), strict=True)), actor_critic_loss, losses
    )


def stage_of(configuration: Configuration, number: int, seed: int) -> Stage:
    regime, network = REGIMES[configuration.regime], configuration.network
    if network == "dqn":
        return dqn_stage(number, seed=seed, reuse=regime.reuse)
    if network == "ppo":
        return ppo_stage(number, seed=seed, reuse=regime.reuse)
    return supervised_stage(number, seed=seed, new=regime.stages, is_flat=network == "mlp")


# A training, and what became of it.


def train(configuration: Configuration, seed: int, *, num_stages: int = NUM_STAGES) -> dict[str, Any]:
    """Return the line of one training."""
    torch.set_num_threads(1)
    began, regime = time.monotonic(), REGIMES[configuration.regime]
    make = partial(make_network, configuration.network, regime.activation)
    torch.manual_seed(seed)
    network = make()
    optimizer = torch.optim.Adam(network.parameters(), regime.lr[configuration.variant])
    stages = []
    for number in range(num_stages):
        stage, after = (stage_of(configuration, n, seed) for n in (number, number + 1))
        if regime.damage and number:
            damage_(network, regime.damage, min(1.0, number / (NUM_STAGES - 2)))  # whole in the last two
        monitor = supple.Monitor(network, every=STAGE_STEPS // READINGS)
        for loss in itertools.islice(stage.losses(network), STAGE_STEPS):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step()
        monitor.close()
        gap = supple.plasticity_gap(network, fresh=make, data=after.data, loss=after.loss, **GAP)
        stages.append(
            {
                "loss": loss.item(),
                "training": list(monitor.rows),
                "probe": probed(network, stage),
                "fresh": probed(fresh_network(make, seed), stage),
                "gap": {key: getattr(gap, key) for key in ("verdict", "value", "interval", "level", "level_interval")},
            }
        )
    line = {**asdict(configuration), "half": configuration.half, "seed": seed, "stages": stages}
    return {**line, "outcome": outcome(line), "seconds": time.monotonic() - began, "supple": supple.__version__}


def fresh_network(make: Make, seed: int) -> nn.Module:
    with undisturbed():
        torch.manual_seed(10_000 + seed)
        return make()


def probed(network: nn.Module, stage: Stage) -> dict[str, float]:
    """What a Monitor reads of the stage's inputs in evaluation mode."""
    with supple.Monitor(network, probe=torch.cat([batch[0] for batch in stage.data])) as monitor:
        return dict(monitor.rows[0])


def ruined_at(line: dict[str, Any]) -> int | None:
    """The first stage at whose end plasticity is lost."""
    lost = (number for number, stage in enumerate(line["stages"]) if stage["gap"]["verdict"] == "plasticity lost")
    return next(lost, None)


def outcome(line: dict[str, Any]) -> str:
    """healthy, ruined, undecided or too early, by the rules above."""
    stage = ruined_at(line)
    if stage is not None:
        return "ruined" if stage else "too early"
    verdicts = {stage["gap"]["verdict"] for stage in line["stages"]}
    return "undecided" if "not decided" in verdicts else "healthy"


def noticed(line: dict[str, Any], warned_in: set[int]) -> bool:
    """Whether a warning came at least a stage before the ruin; of a healthy training, whether any came."""
    end = ruined_at(line)
    return any(number < (math.inf if end is None else end) for number in warned_in)


# The file: one line a training.


def read_lines(path: Path) -> list[dict[str, Any]]:
    """What is written; a torn last line is cut off."""
    if not path.exists():
        return []
    whole, newline, torn = path.read_bytes().rpartition(b"\n")
    if torn:
        os.truncate(path, len(whole + newline))
    return [json.loads(line) for line in whole.decode().splitlines()]


def without_nan(part: Any) -> Any:
    """The part with None for what is not finite, which JSON does not know."""
    if isinstance(part, dict):
        return {key: without_nan(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [without_nan(value) for value in part]
    return None if isinstance(part, float) and not math.isfinite(part) else part


def key_of(line: dict[str, Any]) -> tuple[str, int]:
    return f"{line['network']} {line['regime']} {line['variant']}", line["seed"]


def run(job: tuple[Configuration, int]) -> dict[str, Any]:
    return train(*job)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--only", default="", help="configurations whose name holds this")
    options = parser.parse_args()
    done = set(map(key_of, read_lines(options.out)))
    wanted = [c for c in configurations() if options.only in c.name]
    jobs = [
        (c, seed) for seed, c in itertools.product(range(1, options.seeds + 1), wanted) if (c.name, seed) not in done
    ]
    began = time.monotonic()
    with options.out.open("a") as file, multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for number, line in enumerate(pool.imap_unordered(run, jobs), 1):
            print(json.dumps(without_nan(line), allow_nan=False), file=file, flush=True)
            left = (time.monotonic() - began) / number * (len(jobs) - number)
            print(f"{number}/{len(jobs)}", *key_of(line), line["outcome"], f"{left:.0f} s left", sep="  ", flush=True)
    lines = read_lines(options.out)
    for half in ("choose", "report"):
        print(half, dict(Counter(line["outcome"] for line in lines if line["half"] == half)))


if __name__ == "__main__":
    main()
