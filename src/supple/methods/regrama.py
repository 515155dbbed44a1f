"""ReGraMa (Liu et al. 2025): units whose gradients have died are made new."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from supple import functional as SF
from supple.learner import Batch, Learner
from supple.methods.base import State, non_negative
from supple.methods.gradient_score import Scored, activation_score, gradient_score
from supple.methods.redo import draw_bias
from supple.methods.renewal import Moments, renew_units_
from supple.units import UnitLayer
from supple.units.surgery import UnitSelection


@dataclass(frozen=True, kw_only=True)
class ReGraMa(Scored):
    """Renews units whose gradient score is at most ``threshold``, from the first hidden layer to the last.

    The score is mean |dL/dw| over a unit's incoming weights, by the gradients of the latest step, over its mean in the
    layer. The paper's text takes mean |dL/dh| at the activation, ``signal`` "activation"; "incoming" is what public
    code takes, and is at hand after any backward: our default. They differ: a batch's weight gradients can cancel, and
    vanish with the inputs. A layer without gradients stays, our choice. ``max_share`` bounds the units of a layer
    renewed at once. In a chain put it before penalties, whose gradients would count as the loss's.
    """

    name = "regrama"
    first_score = math.inf  # above every threshold
    threshold: float = 0.01  # tau; the paper finds up to 0.1 alike
    max_share: float = 1.0
    moments: Moments = "per_entry"
    every: int | None = 1000  # optimizer steps, the authors'; None: between stages
    signal: Literal["incoming", "activation"] = field(default="incoming", metadata={"later": True})

    def __post_init__(self) -> None:
        non_negative(self.threshold, "ReGraMa.threshold is the score up to which a unit is inactive")
        SF.probability(self.max_share, "ReGraMa.max_share is the largest share of a layer renewed at once")

    def begin(self, learner: Learner, layers: list[UnitLayer]) -> State:
        if self.signal == "activation":
            learner.gradients  # noqa: B018  # watch them
        return {}

    def next_score(self, learner: Learner, layer: UnitLayer, score_U: Tensor) -> Tensor:
        now_U = activation_score(learner, layer) if self.signal == "activation" else gradient_score(layer)
        return score_U if now_U is None else now_U

    @torch.no_grad()
    def end_stage(self, learner: Learner, state: State, data: Iterable[Batch]) -> None:
        for layer in self.layers(learner):
            score_U = state.get(f"score.{layer.name}")
            if score_U is not None and len((chosen := self.chosen(score_U)).units_K):
                renew_units_(learner, state, layer, chosen, new_bias=draw_bias, moments=self.moments)

    def chosen(self, score_U: Tensor) -> UnitSelection:
        """The inactive units, the lowest first if they are too many."""
        inactive_U = score_U <= self.threshold
        most = math.floor(self.max_share * len(score_U) + 1e-9)
        if most < len(score_U):
            ranks_U = score_U.argsort(stable=True).argsort()
            inactive_U = inactive_U & (ranks_U < most)
        return UnitSelection.all_of(inactive_U)
