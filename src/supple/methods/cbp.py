"""Continual Backprop, CBP (Dohare et al. 2024): after every step the least useful of the old units are made new."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from supple import functional as SF
from supple.kernels import renewal as kernels
from supple.kernels.renewal import Mean
from supple.learner import Learner
from supple.methods.activity import centred, mean_magnitude, mean_value, other_axes, sum_of_magnitudes
from supple.methods.base import State, at_least, decay_rate
from supple.methods.renewal import Moments, Renewing, pass_over_draws, renew_units_, take_own_steps_
from supple.units import UnitLayer, in_dim, out_dim
from supple.units.residual import consecutive_layers
from supple.units.surgery import Entries, UnitSelection, producers_of, renewable_layers


@dataclass(frozen=True, kw_only=True)
class CBP(Renewing):
    """Replaces a share ``replacement_rate`` of the mature units per step, those of least utility.

    The utility of a unit, its contribution, is mean |w_out| * mean |h| over the batch of the step, averaged over steps
    with ``utility_decay`` and corrected for the unit's age. "adaptable_contribution" has |h - mean h| in place of |h|
    and divides by mean |w_in|. Units not older than ``maturity`` steps are safe, and do not count for the rate. A
    replaced unit gets incoming weights drawn from its layer's initial ones, bias 0, outgoing weights 0, its norm back
    at identity, age and utility 0. What the optimizer remembers of it is up to ``moments`` (see renewal.py). Of units
    equal in utility any may go first.

    To capture a step in a CUDA graph, capture its forward and this together, and tell the graph of the stream that
    fresh weights are drawn from: ``graph.register_generator_state(learner.generator)``.
    """

    name = "cbp"
    replacement_rate: float = 1e-3  # rho; the paper's best on random-label MNIST with Adam at 1e-3
    maturity: int = 100  # steps; the paper's in all trainability runs
    utility_decay: float = 0.99  # eta, as in Dohare et al.
    # The text of Dohare et al.; their permuted-MNIST runs have the other.
    utility: Literal["contribution", "adaptable_contribution"] = "contribution"
    # "all": residual units too, as the authors' ResNet does (see units/residual.py)
    residual: Literal["one_consumer", "all"] = "one_consumer"
    moments: Moments = field(default="per_entry", metadata={"later": True, "absent": "clear"})
    revision: int = field(default=2, metadata={"later": True, "absent": 1})  # 1: fresh weights by ReLU's gain

    def __post_init__(self) -> None:
        SF.probability(self.replacement_rate, "CBP.replacement_rate is the share of mature units replaced per step")
        decay_rate(self.utility_decay, "CBP.utility_decay is the decay of the running utility")
        at_least(0, self.maturity, "CBP.maturity is an age in steps")

    def begin(self, learner: Learner, layers: list[UnitLayer]) -> State:
        learner.features  # noqa: B018  # watch the activations
        return {}

    def first_record(self, layer: UnitLayer, device: torch.device) -> State:
        zeros = torch.zeros(layer.num_units, dtype=torch.float32, device=device)
        # The budget in float64: in float32 a sum of rates reaches 1 a step late.
        budget = torch.zeros((), dtype=torch.float64, device=device)
        means = {f"{key}.{layer.name}": zeros.clone() for key in self.running_means}
        return {f"age.{layer.name}": zeros.long(), f"budget.{layer.name}": budget, **means}

    def layers(self, learner: Learner) -> list[UnitLayer]:
        """The layers whose units are replaced; by default no unit that a residual sum shares."""
        if self.residual == "all":
            return renewable_layers(consecutive_layers(learner.units, learner.model), learner.optimizer)
        return [layer for layer in super().layers(learner) if len(layer.consumers) == 1]

    @property
    def running_means(self) -> tuple[str, ...]:
        """What is averaged over steps for each unit."""
        return ("utility",) if self.utility == "contribution" else ("utility", "mean")

    @torch.no_grad()
    def after_step(self, learner: Learner, state: State) -> None:
        take_own_steps_(learner, state, self.moments)
        for layer in self.last_seen(learner):
            if f"age.{layer.name}" not in state:  # its weights were frozen until now
                state |= self.first_record(layer, learner.device)
            record = {key: state[f"{key}.{layer.name}"] for key in ("age", "budget", *self.running_means)}
            chosen = self.choose_units_(learner, layer, record)
            if chosen is None:
                pass_over_draws(learner, layer, self.num_slots(layer.num_units))
            else:
                renew_units_(learner, state, layer, chosen, new_bias=lambda *_: 0.0, moments=self.moments)

    def num_slots(self, num_units: int) -> int:
        """The most that a step renews: the budget is below 1 before it. If rounding asks for more, later steps pay."""
        return min(1 + math.floor(self.replacement_rate * num_units), num_units)

    def choose_units_(self, learner: Learner, layer: UnitLayer, record: State) -> UnitSelection | None:
        """Add the step's values to the utilities, and take the lowest of the mature units, as many as the budget pays.

        They are new in the record. Always the same number of units, most not due; None if it is known that none is.
        """
        h, num_slots = learner.take_feature(layer.name), self.num_slots(layer.num_units)
        factors: tuple[Mean, ...]
        told = self.utility_decay, self.maturity, self.replacement_rate, num_slots
        if self.utility == "contribution":
            factors = activity_of(learner, layer, h), outgoing_magnitude(layer)
            picked = kernels.choose_units_(record, factors, *told)
            if picked is not None:
                return UnitSelection(*picked)
        else:
            record["age"] += 1
            factors = (Mean(self.adaptable_contribution(learner, layer, record, h), 1.0),)
        num_due: Tensor | int | None = kernels.rate_units_(record, factors, *told)
        if num_due is None:
            num_due = self.rate_units_(record, factors, num_slots)
        if isinstance(num_due, int) and num_due == 0:
            return None
        ranked_U = (record["utility"] / self.correction(record)).masked_fill(record["age"] <= self.maturity, math.inf)
        units_K = ranked_U.topk(num_slots, largest=False).indices
        chosen = UnitSelection(units_K, torch.arange(num_slots, device=units_K.device) < num_due)
        for key in ("age", *self.running_means):
            Entries(record[key], 0, chosen.units_K, chosen.due_K).write_(0)
        return chosen

    def adaptable_contribution(self, learner: Learner, layer: UnitLayer, record: State, h: Tensor) -> Tensor:
        """What the units were worth in this step beyond their mean, which goes on, for the weights that feed them."""
        mean_U = mean_value(layer, h)
        learner.mean_over_ranks_(mean_U)
        self.average_(record["mean"], mean_U)
        mean_U = record["mean"] / self.correction(record)
        value_U = mean_magnitude(layer, centred(layer, h, mean_U=mean_U))
        learner.mean_over_ranks_(value_U)
        return value_U / incoming_magnitude(layer) * outgoing_magnitude(layer).value

    def rate_units_(self, record: State, factors: Sequence[Mean], num_slots: int) -> Tensor | int:
        """Add the step's values to the utilities, and say how many units the budget pays for."""
        if len(factors) > 1:
            record["age"] += 1
        self.average_(record["utility"], functools.reduce(torch.mul, (factor.value for factor in factors)))
        num_mature, budget = (record["age"] > self.maturity).sum(), record["budget"]
        # Without mature units nothing is added, so that no budget is saved up for the day they mature.
        budget += self.replacement_rate * num_mature.double()
        paid = budget.floor().clamp(max=num_slots)
        budget -= paid
        num_due = torch.minimum(paid, num_mature)
        return int(num_due) if kernels.can_look(num_due) else num_due

    def average_(self, mean_U: Tensor, value_U: Tensor) -> None:
        """Add a step's values to their running means; one that is no number, as after an overflow, leaves its own."""
        mean_U.lerp_(torch.where(value_U.isfinite(), value_U, mean_U), 1.0 - self.utility_decay)

    def correction(self, record: State) -> Tensor:
        """What a running mean that started at 0 must be divided by, unit by unit."""
        return 1.0 - self.utility_decay ** record["age"]


def activity_of(learner: Learner, layer: UnitLayer, h: Tensor) -> Mean:
    """mean |h| of each unit."""
    if h.shape[layer.unit_dim] == layer.num_units and learner.process_group is None:
        return Mean(sum_of_magnitudes(h, other_axes(layer, h)), h.numel() / layer.num_units)
    mean_U = mean_magnitude(layer, h)
    learner.mean_over_ranks_(mean_U)
    return Mean(mean_U, 1.0)


def outgoing_magnitude(layer: UnitLayer) -> Mean:
    """mean |w| over all weights that read a unit, unit by unit."""
    sums, num_weights = [], 0
    for consumer in layer.consumers:
        weight = consumer.layer.weight
        columns = in_dim(consumer.layer)
        sums_I = sum_of_magnitudes(weight, [dim for dim in range(weight.dim()) if dim != columns])
        sums.append(sums_I if consumer.is_one_to_one else sums_I.take(consumer.columns_US).sum(dim=1))
        num_weights += weight.numel() // weight.shape[columns] * consumer.columns_US.shape[1]
    return Mean(sums[0] if len(sums) == 1 else torch.stack(sums).sum(dim=0), num_weights)


def incoming_magnitude(layer: UnitLayer) -> Tensor:
    """mean |w| over the weights that feed a unit, unit by unit."""
    rows = [producer.weight.abs().movedim(out_dim(producer), 0).flatten(1) for producer in producers_of(layer)]
    return torch.cat(rows, dim=1).mean(dim=1, dtype=torch.float32)
