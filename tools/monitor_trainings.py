"""Monitor trainings: the small networks, problems and ways to train of `monitor_reference.py`.

A stage brings new data: digits under permuted pixels, random labels or two other classes, or another random Markov
decision process for a DQN or PPO agent. A way to train (a regime) may wear a network out, spoil it step by step, or
leave it healthy; whether it did is not decided here.
"""

import copy
import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

import supple
from supple import methods

NETWORKS = ("mlp", "cnn", "vit", "dqn", "ppo")
NUM_IMAGES, BATCH = 256, 64
NUM_STATES, NUM_ACTIONS, NUM_INPUTS, DISCOUNT = 64, 4, 32, 0.7

Batches = list[tuple[Tensor, ...]]
Loss = Callable[..., Tensor]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How a training is led."""

    lr: float
    stages: Literal["inputs", "labels", "classes"] = "inputs"  # what is new in a stage of a supervised training
    optimizer: Literal["adam", "adamw", "rmsprop", "sgd", "stale"] = "adam"  # stale: hardly forgets a loud first stage
    reuse: int = 1  # how many times more updates an agent makes of each experience
    decay: float = 0.0  # Adam's coupled L2 penalty
    fast: float = 1.0  # how many times the last layer's learning rate the weights of others have
    damage: Literal["", "dead", "saturated", "clones", "growth"] = ""
    activation: Literal["relu", "tanh", "gelu", "aid"] = "relu"
    norm: bool = False  # a LayerNorm in front of each activation
    remedy: Literal["", "l2_init", "cbp"] = ""
    width: float = 1.0  # of hidden layers, as a multiple
    depth: int = 0  # hidden layers more, or blocks
    images: tuple[int, int] = (0, 1797)  # the first of the digits, and where they end


def variants(base: Setting, **values: tuple[float | str, ...]) -> tuple[Setting, ...]:
    """The setting with each of these values in turn."""
    rows = zip(*values.values(), strict=True)
    return tuple(replace(base, **dict(zip(values, row, strict=True))) for row in rows)  # type: ignore[arg-type]


PLAIN, WORN = Setting(lr=1e-3), Setting(lr=1e-3, stages="labels", reuse=4, fast=10.0)
REGIMES = {
    "healthy": variants(PLAIN, lr=(3e-4, 1e-3, 1e-3), activation=("relu", "relu", "gelu")),
    "sgd": variants(replace(PLAIN, optimizer="sgd"), lr=(1e-2, 3e-2, 1e-1)),
    "rate_too_low": variants(PLAIN, lr=(1e-6, 1e-5, 3e-5)),
    "rate_too_high": variants(PLAIN, lr=(1e-2, 2e-2, 5e-2)),
    "forgetting": variants(replace(PLAIN, stages="classes"), lr=(1e-3, 3e-3, 1e-3), norm=(False, False, True)),
    "labels": variants(replace(WORN, reuse=1), lr=(3e-4, 1e-3, 1e-3), norm=(False, False, True)),
    "stale": variants(replace(PLAIN, optimizer="stale"), lr=(1e-3, 3e-3, 1e-3), norm=(False, False, True)),
    "remedy": variants(WORN, activation=("aid", "relu", "relu"), remedy=("", "l2_init", "cbp")),
    "worn": variants(WORN, lr=(1e-3, 1e-3, 3e-3), fast=(10.0, 20.0, 10.0)),
    "worn_tanh": variants(replace(WORN, activation="tanh"), lr=(1e-3, 1e-3, 3e-3), fast=(20.0, 50.0, 20.0)),
    "decay": variants(PLAIN, decay=(3e-2, 1e-1, 3e-1)),
    "fast": variants(replace(PLAIN, norm=True), fast=(30.0, 100.0, 300.0)),
    "dead": variants(replace(PLAIN, damage="dead"), lr=(3e-4, 1e-3, 1e-3), norm=(False, False, True)),
    "saturated": variants(replace(PLAIN, damage="saturated", activation="tanh"), lr=(3e-4, 1e-3, 3e-3)),
    "clones": variants(replace(PLAIN, damage="clones"), lr=(3e-4, 1e-3, 1e-3), activation=("relu", "relu", "tanh")),
    "growth": variants(replace(PLAIN, damage="growth", norm=True), lr=(3e-4, 1e-3, 3e-3)),
}


# Networks.


def activation_of(setting: Setting) -> nn.Module:
    made = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU, "aid": functools.partial(supple.AID, p=0.95)}
    return made[setting.activation]()


def hidden(layer: nn.Module, setting: Setting, *, shape: tuple[int, ...] = ()) -> list[nn.Module]:
    """The layer, a norm if there is one, and the activation."""
    size = shape or (layer.out_features,)  # type: ignore[arg-type]
    return [layer, *([nn.LayerNorm(size)] if setting.norm else []), activation_of(setting)]


class Attention(nn.Module):
    def __init__(self, width: int, num_heads: int = 2) -> None:
        super().__init__()
        self.num_heads, self.into, self.out = num_heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.into(x).unflatten(-1, (3, self.num_heads, -1)).movedim(-3, 0).transpose(-3, -2)
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return self.out((weights @ v).transpose(-3, -2).flatten(-2))


class Block(nn.Module):
    def __init__(self, width: int, setting: Setting) -> None:
        super().__init__()
        self.norms, self.attention = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)]), Attention(width)
        self.mlp = nn.Sequential(*hidden(nn.Linear(width, 4 * width), setting), nn.Linear(4 * width, width))

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.attention(self.norms[0](tokens))
        return tokens + self.mlp(self.norms[1](tokens))


class Vit(nn.Module):
    """Four patches of 4x4 pixels and one block, or more."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        width = round(12 * setting.width) * 2
        self.embed = nn.Linear(16, width)
        self.place = nn.Parameter(0.02 * torch.randn(4, width))
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(3)])
        self.attention = Attention(width)
        self.mlp = nn.Sequential(*hidden(nn.Linear(width, 4 * width), setting), nn.Linear(4 * width, width))
        self.more = nn.ModuleList([Block(width, setting) for _ in range(setting.depth)])
        self.head = nn.Sequential(nn.Linear(width, 10), *final_norm(10, setting, "vit"))

    def forward(self, images: Tensor) -> Tensor:
        patches = images.unflatten(-2, (2, 4)).unflatten(-1, (2, 4)).transpose(-3, -2).reshape(-1, 4, 16)
        tokens = self.embed(patches) + self.place
        tokens = tokens + self.attention(self.norms[0](tokens))
        tokens = tokens + self.mlp(self.norms[1](tokens))
        for block in self.more:
            tokens = block(tokens)
        return self.head(self.norms[2](tokens).mean(1))


def make_network(name: str, setting: Setting) -> nn.Module:
    if name == "vit":
        return Vit(setting)
    sizes = {"mlp": (64, 10), "dqn": (NUM_INPUTS, NUM_ACTIONS), "ppo": (NUM_INPUTS, NUM_ACTIONS + 1), "cnn": (64, 10)}
    num_inputs, num_outputs = sizes[name]
    parts: list[nn.Module] = []
    channels, narrow, wide = (round(setting.width * width) for width in (8, 16, 32))
    if name == "cnn":
        num_inputs = 4 * narrow
        first, second = (nn.Conv2d(*sizes, 3, stride=2, padding=1) for sizes in ((1, channels), (channels, narrow)))
        parts = [*hidden(first, setting, shape=(channels, 4, 4)), *hidden(second, setting, shape=(narrow, 2, 2))]
    widths = (num_inputs, *[wide] * (setting.depth + (2 if name == "mlp" else 1)), narrow)
    layers = (hidden(nn.Linear(*pair), setting) for pair in itertools.pairwise(widths))
    head = [nn.Linear(narrow, num_outputs), *final_norm(num_outputs, setting, name)]
    return nn.Sequential(*parts, nn.Flatten(), *itertools.chain(*layers), *head)


def final_norm(num_outputs: int, setting: Setting, name: str) -> list[nn.Module]:
    """A normed classifier norms its outputs, too: the size of no weight matters to what it computes."""
    return [nn.LayerNorm(num_outputs, elementwise_affine=False)] * (setting.norm and name not in ("dqn", "ppo"))


def last_layer(network: nn.Module) -> nn.Linear:
    return [part for part in network.modules() if isinstance(part, nn.Linear)][-1]


def hidden_layers(network: nn.Module) -> list[nn.Linear | nn.Conv2d]:
    """All layers but the last; those that start small or feed no activation too."""
    return [part for part in network.modules() if isinstance(part, nn.Linear | nn.Conv2d)][:-1]


def clone_units_(network: nn.Module, share: float) -> None:
    """Make this share of each layer's units one and the same, in what feeds them and in what they feed.

    Their gradients are the same from then on, so that no training tells them apart.
    """
    layers = [part for part in network.modules() if isinstance(part, nn.Linear | nn.Conv2d)]
    for layer, following in itertools.pairwise(layers):
        count, units = round(share * len(layer.weight)), len(layer.weight)
        layer.weight.data[:count], layer.bias.data[:count] = layer.weight.data[0].clone(), layer.bias.data[0].clone()
        if following.weight.flatten(1).shape[1] % units == 0:
            fed = following.weight.data.view(len(following.weight), units, -1)
            fed[:, :count] = fed[:, :count].mean(1, keepdim=True)


def deciding_layers(network: nn.Module) -> list[nn.Linear | nn.Conv2d | nn.LayerNorm]:
    """What gives each hidden layer's activation its input: its norm, if it has one."""
    parts = [part for part in network.modules() if isinstance(part, nn.Linear | nn.Conv2d | nn.LayerNorm)]
    is_last = {id(last_layer(network))}
    return [
        following if isinstance(following, nn.LayerNorm) else layer
        for layer, following in itertools.pairwise(parts)
        if not isinstance(layer, nn.LayerNorm) and id(layer) not in is_last
    ]


def damage_(network: nn.Module, kind: str, share: float) -> None:
    """Spoil this share of each hidden layer's units; of growth, all layers once more."""
    if kind == "clones" and share * 16 >= 2:
        clone_units_(network, share)
    if kind == "growth":
        is_normed = isinstance([*network.modules()][-1], nn.LayerNorm)
        for layer in [*hidden_layers(network), *([last_layer(network)] if is_normed else [])]:
            layer.weight.data *= 3.0
    if kind in ("dead", "saturated"):
        for layer in deciding_layers(network):
            count = round(share * len(layer.bias))
            layer.weight.data[:count] = 0.0
            layer.bias.data[:count] = -0.1 if kind == "dead" else 6.0  # tanh's slope there is 2e-5


# Optimizers.


def make_optimizer(network: nn.Module, setting: Setting) -> torch.optim.Optimizer:
    fast = {id(layer.weight) for layer in hidden_layers(network)} if setting.fast != 1.0 else set()
    groups = [
        {"params": [p for p in network.parameters() if (id(p) in fast) == is_fast], "lr": setting.lr * rate}
        for is_fast, rate in ((False, 1.0), (True, setting.fast))
    ]
    groups = [group for group in groups if group["params"]]
    if setting.optimizer == "sgd":
        return torch.optim.SGD(groups, momentum=0.9)
    if setting.optimizer == "rmsprop":
        return torch.optim.RMSprop(groups, weight_decay=setting.decay)
    if setting.optimizer == "adamw":
        return torch.optim.AdamW(groups, fused=True)
    betas = (0.9, 0.9999) if setting.optimizer == "stale" else (0.9, 0.999)
    return torch.optim.Adam(groups, betas=betas, weight_decay=setting.decay, fused=True)


def make_remedy(setting: Setting) -> methods.Method | None:
    if setting.remedy == "l2_init":
        return methods.L2Init(strength=1e-3)
    return methods.CBP(replacement_rate=1e-3, maturity=50) if setting.remedy == "cbp" else None


# Problems: the data of a stage for the gap, and the losses that a training goes through.


@dataclass(frozen=True)
class Stage:
    data: Batches
    loss: Loss
    losses: Callable[[nn.Module], Iterator[Tensor]]  # without end, one for each update
    right: Callable[[Tensor], Tensor]  # which outputs for all data are right

    def accuracy(self, network: nn.Module) -> float:
        with torch.no_grad():
            return self.right(network(torch.cat([batch[0] for batch in self.data]))).double().mean().item()


@functools.cache
def digits() -> tuple[Tensor, Tensor]:
    images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
    return images.float() / 16.0, labels


def supervised_stage(number: int, setting: Setting, *, seed: int, is_flat: bool) -> Stage:
    """Digits with permuted pixels, random labels, or two classes of ten."""
    generator, new = torch.Generator().manual_seed(1000 * seed + number), setting.stages
    images, labels = (part[slice(*setting.images)] for part in digits())
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

    return Stage(data, F.cross_entropy, losses, lambda output: output.argmax(1) == labels)


class World:
    """A random Markov decision process: where actions lead; what they pay is linear in what is seen of a state.

    Rewards are moved and scaled so that what is learned, the best values of all ``actions`` or of states alone, has
    mean 0 and standard deviation 1: an output's bias alone learns nothing of it.
    """

    def __init__(self, seed: int, *, learned: Literal["actions", "states"]) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.next = torch.randint(NUM_STATES, (NUM_STATES, NUM_ACTIONS), generator=self.generator)
        self.seen = torch.randn(NUM_STATES, NUM_INPUTS, generator=self.generator)
        self.reward = self.seen @ torch.randn(NUM_INPUTS, NUM_ACTIONS, generator=self.generator)
        values = self.best_values()
        values = values if learned == "actions" else values.amax(1)
        self.reward = (self.reward - (1.0 - DISCOUNT) * values.mean()) / values.std()
        self.values = self.best_values()

    def best_values(self) -> Tensor:
        values = torch.zeros(NUM_STATES, NUM_ACTIONS)
        for _ in range(200):
            values = self.reward + DISCOUNT * values.amax(1)[self.next]
        return values

    def draw(self, high: int, shape: tuple[int, ...]) -> Tensor:
        return torch.randint(high, shape, generator=self.generator)

    def right(self, output: Tensor) -> Tensor:
        return output[:, :NUM_ACTIONS].argmax(1) == self.values.argmax(1)


def dqn_stage(number: int, *, seed: int, reuse: int) -> Stage:
    world = World(1000 * seed + number, learned="actions")

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
            if update % 45 == 0:
                target.load_state_dict(network.state_dict())
            at, action = replay[world.draw(len(replay), (64,))].T
            with torch.no_grad():
                ahead = target(world.seen[world.next[at, action]]).amax(1)
            value = network(world.seen[at]).gather(1, action[:, None])[:, 0]
            yield F.smooth_l1_loss(value, world.reward[at, action] + DISCOUNT * ahead)

    data = list(zip(world.seen.split(32), world.values.split(32), strict=True))
    return Stage(data, F.smooth_l1_loss, losses, world.right)


def actor_critic_loss(output: Tensor, action: Tensor, value: Tensor) -> Tensor:
    return F.cross_entropy(output[:, :-1], action) + 0.5 * F.mse_loss(output[:, -1], value)


def chances_of(output: Tensor) -> Tensor:
    """How likely each action is; all alike once the network has diverged."""
    return output[:, :-1].softmax(1).nan_to_num(1.0 / NUM_ACTIONS)


def ppo_stage(number: int, *, seed: int, reuse: int) -> Stage:
    world = World(1000 * seed + number, learned="states")

    def losses(network: nn.Module) -> Iterator[Tensor]:
        """Clipped policy gradient on rollouts of 4 steps from 64 states, two epochs, more with reuse."""
        while True:
            path, states = [], world.draw(NUM_STATES, (64,))
            with torch.no_grad():
                for _ in range(4):
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
            for _ in range(2 * reuse):
                for rows in torch.randperm(len(at), generator=world.generator).split(64):
                    output = network(world.seen[at[rows]])
                    policy = output[:, :-1].log_softmax(1)
                    now = policy.gather(1, action[rows][:, None])[:, 0]
                    ratio = (now - chance[rows]).exp()
                    clipped = torch.minimum(ratio * gain[rows], ratio.clamp(0.8, 1.2) * gain[rows])
                    entropy = -(policy.exp() * policy).sum(1).mean()
                    yield 0.5 * F.mse_loss(output[:, -1], goal[rows]) - clipped.mean() - 0.1 * entropy

    best = world.values.argmax(1), world.values.amax(1)
    data = list(zip(world.seen.split(32), *(part.split(32) for part in best), strict=True))
    return Stage(data, actor_critic_loss, losses, world.right)


def stage_of(network: str, setting: Setting, number: int, *, seed: int) -> Stage:
    if network == "dqn":
        return dqn_stage(number, seed=seed, reuse=setting.reuse)
    if network == "ppo":
        return ppo_stage(number, seed=seed, reuse=setting.reuse)
    return supervised_stage(number, setting, seed=seed, is_flat=network == "mlp")
