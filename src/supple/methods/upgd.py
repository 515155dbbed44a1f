"""UPGD (Elsayed & Mahmood 2024): useful weights are protected from the gradient, and idle ones get noise."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from supple.learner import Learner
from supple.methods.base import Method, State, learning_rates, non_negative
from supple.methods.renewal import layers_reached
from supple.units import UnitLayer, in_dim, out_dim
from supple.units.surgery import check_renewable, producers_of, renewable_layers, warn_of_others

SMALLEST = 1e-12  # of the utility that others are divided by


@dataclass(frozen=True, kw_only=True)
class UPGD(Method):
    """Gates gradient and noise by 1 - s, s = sigmoid(utility / its maximum over all weights).

    A weight's utility is the running mean of -gradient * weight, corrected for its start: steps count from the first
    gradient of its own parameter. With ``protecting`` the gradient becomes (g + noise) * (1 - s) + weight_decay * w,
    else g + noise * (1 - s) + weight_decay * w, and plain SGD makes the authors' step of it. ``scope`` "local" divides
    by the length of a weight's row instead. ``adaptive`` is for Adam (AdaUPGD): it sees the raw gradient, and its step
    is gated: 2 (1 - s) times it (without ``protecting`` the step itself), less 2 lr (1 - s) noise and
    lr * weight_decay * w.

    ``per`` "unit" is the feature-wise form: the utility of a hidden unit is the sum over its outgoing weights, and
    gates its incoming weights, bias and norm. All else, such as the output layer, trains plainly and without noise.

    A maximum below 1e-12 is taken for that, our choice. ``reference``: as in the authors' code the maximum is that of
    utilities without the correction, which freezes useful weights for the first 1 / (1 - beta) steps.
    """

    name = "upgd"
    beta: float = 0.999
    sigma: float = 0.001
    weight_decay: float = 0.001  # all three as in the authors' readme
    protecting: bool = True
    scope: Literal["global", "local"] = "global"
    adaptive: bool = False
    reference: bool = False
    per: Literal["weight", "unit"] = field(default="weight", metadata={"later": True})

    def __post_init__(self) -> None:
        if not 0.0 <= self.beta < 1.0:
            raise ValueError(f"UPGD.beta is the decay of the running utility, in [0, 1); got {self.beta}.")
        non_negative(self.sigma, "UPGD.sigma is the standard deviation of the noise")
        non_negative(self.weight_decay, "UPGD.weight_decay is the weight of the decay")
        if self.adaptive and self.per == "unit":
            raise ValueError('UPGD.adaptive is the form of weights; leave it out, or per="unit".')

    def init(self, learner: Learner) -> State:
        state: State = {}
        if self.per == "unit":
            layers = self.layers(learner)
            check_renewable(learner.units, learner.optimizer, "UPGD")
            warn_of_others(learner.units, learner.optimizer, "UPGD", served=layers)
            for layer in layers:
                state |= self.first_record(layer.name, torch.zeros(layer.num_units, device=learner.device))
            return state
        for name, parameter in learner.model.named_parameters():
            state |= self.first_record(name, parameter.detach())
        return state

    def first_record(self, name: str, like: Tensor) -> State:
        """What is remembered of a parameter, or of a layer's units, before the first step."""
        wide = torch.zeros_like(like, dtype=torch.promote_types(like.dtype, torch.float32))  # a slow mean
        steps = torch.zeros((), dtype=torch.float64, device=like.device)
        record = {f"utility.{name}": wide, f"next.utility.{name}": wide.clone(), f"steps.{name}": steps}
        if self.adaptive:
            record |= {f"next.old.{name}": like.clone(), f"next.noise.{name}": torch.zeros_like(like)}
        return record

    def layers(self, learner: Learner) -> list[UnitLayer]:
        """The layers whose units have weights of their own."""
        return renewable_layers(learner.units, learner.optimizer)

    def reach(self, learner: Learner) -> tuple[list[str], list[str]]:
        return layers_reached(learner, self.layers(learner)) if self.per == "unit" else super().reach(learner)

    @torch.no_grad()
    def after_backward(self, learner: Learner, state: State) -> None:
        trained = list(zip(*learner.trained(), strict=True))
        if not trained:
            return
        gains = self.gains(learner)
        for key, gain in gains.items():
            if f"utility.{key}" not in state:  # it came later
                state |= self.first_record(key, learner.model.get_parameter(key) if self.per == "weight" else gain)
            utility = state[f"utility.{key}"]
            state[f"next.utility.{key}"].copy_(utility.lerp(gain.to(utility.dtype), 1.0 - self.beta))
        free = self.free_shares(state, list(gains))
        if self.per == "unit":
            free = {name: share for layer in self.layers(learner) for name, share in spread(learner, layer, free)}
        decayed = set(learner.penalised()[0])
        for name, theta, gradient in trained:
            decay = self.weight_decay if name in decayed else 0.0
            if name not in free:
                gradient.add_(theta, alpha=decay)
                continue
            share = free[name].to(theta.dtype)
            noise = torch.empty_like(theta).normal_(generator=learner.generator).mul_(self.sigma)
            if self.adaptive:
                state[f"next.old.{name}"].copy_(theta)
                state[f"next.noise.{name}"].copy_(noise * share)
                continue
            edited = (gradient + noise) * share if self.protecting else gradient + noise * share
            gradient.copy_(edited.add_(theta, alpha=decay))

    @torch.no_grad()
    def after_step(self, learner: Learner, state: State) -> None:
        names, thetas, _ = learner.trained()
        if not names:
            return
        if self.adaptive:
            free, decayed = self.free_shares(state, names), set(learner.penalised()[0])
            rates = learning_rates(learner.optimizer)
            for name, theta in zip(names, thetas, strict=True):
                rate, old = rates[id(theta)], state[f"next.old.{name}"]
                step = (theta - old) * (2.0 * free[name].to(theta.dtype) if self.protecting else 1.0)
                noise = 2.0 * rate * state[f"next.noise.{name}"]
                decay = self.weight_decay if name in decayed else 0.0
                theta.copy_(old * (1.0 - rate * decay) + step - noise)
        for key in names if self.per == "weight" else [layer.name for layer in self.rated(learner)]:
            state[f"utility.{key}"].copy_(state[f"next.utility.{key}"])
            state[f"steps.{key}"].add_(1)

    def rated(self, learner: Learner) -> list[UnitLayer]:
        """The layers whose units the last backward reached."""
        return [
            layer for layer in self.layers(learner) if all(c.layer.weight.grad is not None for c in layer.consumers)
        ]

    def gains(self, learner: Learner) -> dict[str, Tensor]:
        """-gradient * weight of each weight, by its parameter; of each unit their sum over outgoing weights."""
        if self.per == "unit":
            return {layer.name: unit_gain(layer) for layer in self.rated(learner)}
        return {name: -gradient * theta for name, theta, gradient in zip(*learner.trained(), strict=True)}

    def free_shares(self, state: State, keys: Sequence[str]) -> dict[str, Tensor]:
        """1 - s of each weight or unit, in the step that is under way."""
        if not keys:
            return {}
        utilities = {key: state[f"next.utility.{key}"] for key in keys}
        steps = torch.stack([state[f"steps.{key}"] for key in keys]) + 1
        corrections = (1.0 - self.beta**steps).unbind()
        pairs = zip(utilities.items(), corrections, strict=True)
        corrected = {key: utility / correction.to(utility.dtype) for (key, utility), correction in pairs}
        if self.scope == "local":
            lengths = {key: u.norm(dim=-1, keepdim=True).clamp(min=SMALLEST) for key, u in corrected.items()}
            return {key: torch.sigmoid(-u / lengths[key]) for key, u in corrected.items()}
        bounding = utilities if self.reference else corrected
        largest = torch.stack([u.amax().double() for u in bounding.values()]).amax().clamp(min=SMALLEST)
        return {key: torch.sigmoid(-u / largest.to(u.dtype)) for key, u in corrected.items()}


def unit_gain(layer: UnitLayer) -> Tensor:
    """-gradient * weight of each unit, over all weights that read it."""
    total_U = torch.zeros(layer.num_units, device=layer.consumers[0].layer.weight.device)
    for consumer in layer.consumers:
        weight = consumer.layer.weight
        assert weight.grad is not None
        gain_I = (-weight.grad * weight).movedim(in_dim(consumer.layer), 0).flatten(1).sum(dim=1, dtype=torch.float32)
        total_U += gain_I[consumer.columns_US.to(weight.device)].sum(dim=1)
    return total_U


def spread(learner: Learner, layer: UnitLayer, free: dict[str, Tensor]) -> list[tuple[str, Tensor]]:
    """The units' shares in the shapes of their incoming weights, biases and norm, by parameter."""
    if layer.name not in free:
        return []
    weights = [(producer.weight, out_dim(producer)) for producer in producers_of(layer)]
    holders = [held for held in (*producers_of(layer), layer.norm) if held is not None]
    vectors = [part for held in holders for part in held.parameters(recurse=False) if part.dim() == 1]
    owned = {id(p): (p, dim) for p, dim in [*weights, *((vector, 0) for vector in vectors)]}
    return [
        (name, free[layer.name].view([-1 if at == dim else 1 for at in range(p.dim())]))
        for name, parameter in learner.own_parameters().items()
        if id(parameter) in owned
        for p, dim in [owned[id(parameter)]]
    ]
