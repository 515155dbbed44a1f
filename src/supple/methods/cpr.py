"""CPR, calibrated partial resets (McCutcheon et al. 2026): every unit is renewed a little, the idle ones more."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from supple import functional as SF
from supple.learner import Batch, Learner
from supple.methods.base import State, decay_rate, non_negative
from supple.methods.gradient_score import Scored, gradient_score
from supple.units import UnitLayer, in_dim, out_dim
from supple.units.surgery import producers_of


@dataclass(frozen=True, kw_only=True)
class CPR(Scored):
    """Moves incoming weights a share r towards a fresh draw, and outgoing weights a share r towards 0.

    r = rate * min(2 sigmoid(-sharpness * (u - centre)), 1), with u the running mean of a unit's gradient score
    (mean 1 in the layer), so that about half of the units get the whole rate. Fresh weights are He-uniform. Biases,
    norms, moments and the output layer's rows stay; u starts over at 1. In a chain put it before penalties, whose
    gradients would count as the loss's.
    """

    name = "cpr"
    rate: float = 0.015  # rho
    sharpness: float = 16.0
    centre: float = 1.0
    decay: float = 0.99
    every: int | None = 1000  # optimizer steps, the authors'; None: between stages

    def __post_init__(self) -> None:
        SF.probability(self.rate, "CPR.rate is the largest share of a unit that is made new")
        non_negative(self.sharpness, "CPR.sharpness is the slope of the share in the score")
        non_negative(self.centre, "CPR.centre is the score at which the share begins to fall")
        decay_rate(self.decay, "CPR.decay is the decay of the running score")

    def next_score(self, learner: Learner, layer: UnitLayer, score_U: Tensor) -> Tensor:
        now_U = gradient_score(layer)
        # A layer without gradients has the mean score, 1.
        return score_U if now_U is None else score_U.lerp(now_U.nan_to_num(posinf=1.0), 1.0 - self.decay)

    def shares(self, score_U: Tensor) -> Tensor:
        """How much of each unit is made new."""
        return self.rate * (2.0 * torch.sigmoid(-self.sharpness * (score_U - self.centre))).clamp(max=1.0)

    @torch.no_grad()
    def end_stage(self, learner: Learner, state: State, data: Iterable[Batch]) -> None:
        for layer in self.layers(learner):
            if f"score.{layer.name}" not in state:
                state |= self.first_record(layer, learner.device)
            score_U = state[f"score.{layer.name}"]
            share_U = self.shares(score_U)
            for producer in producers_of(layer):
                weight, rows = producer.weight, out_dim(producer)
                bound = math.sqrt(6.0 / (weight.numel() / weight.shape[rows]))
                noise = torch.rand(weight.shape, generator=learner.generator, device=weight.device, dtype=weight.dtype)
                weight.lerp_((2.0 * noise - 1.0) * bound, along(rows, share_U, weight))
            for consumer in layer.consumers:
                weight, columns = consumer.layer.weight, in_dim(consumer.layer)
                kept_I = torch.ones(weight.shape[columns], device=weight.device, dtype=weight.dtype)
                owned_US = consumer.columns_US.to(weight.device)
                kept_I[owned_US.flatten()] = (1.0 - share_U).to(weight.dtype).repeat_interleave(owned_US.shape[1])
                weight.mul_(along(columns, kept_I, weight))
            score_U.fill_(1.0)


def along(dim: int, vector: Tensor, weight: Tensor) -> Tensor:
    """A vector in a shape that scales a weight along one dimension, entry for entry."""
    shaped = vector.to(weight.dtype).view([-1 if at == dim else 1 for at in range(weight.dim())])
    return shaped.expand_as(weight)
