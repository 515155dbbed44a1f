"""ReDo (Sokar et al. 2023): units that hardly fire are made new at the end of a stage."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from supple.inputs import mapped, num_examples_of, pair_of
from supple.learner import Batch, Learner
from supple.methods.activity import mean_magnitudes
from supple.methods.base import State, at_least
from supple.methods.renewal import Moments, Renewing, draw, renew_units_, take_own_steps_
from supple.random import undisturbed_reading
from supple.units import Inputs, Layer
from supple.units.surgery import UnitSelection

ZERO = 1e-8  # a score up to here is none: what is left of an exact 0 after the means
EPSILON = 1e-9  # a layer that gives nothing has mean 0; its scores are 0, not 0/0


@dataclass(frozen=True, kw_only=True)
class ReDo(Renewing):
    """Recycles dormant units: those whose score, mean |h| over its mean in the layer, is at most ``threshold``.

    Scores have mean 1, so a threshold of 1 recycles about half of the units, 50 nearly all. They are taken once, in
    evaluation mode, from the post-activations. Then, from the first hidden layer to the last, a dormant unit gets fresh
    incoming weights and biases and its outgoing weights become 0; what the optimizer remembers of it is up to
    ``moments`` (see renewal.py). In this order a network whose units are all recycled is a fresh network with a zero
    output layer, and learns; all incoming first, then all outgoing, would leave every layer but the first at 0.

    Fresh weights are drawn from the layer's own initial weights, biases from its initial biases. A norm before the
    activation is put back to scale 1 and shift 0, because a unit that died by its norm would stay dead. Residual units,
    which share what they write to, stay.
    """

    name = "redo"
    follows = ("after_step",)
    reads_data = True
    # tau; the paper's best on random-label MNIST with Adam at 1e-3 (50 on permuted MNIST); inf: all units
    threshold: float = field(default=0.0, metadata={"infinite": True})
    num_examples: int = 2000  # of the finished stage, at most: all of random-label MNIST's 1,600
    moments: Moments = field(default="per_entry", metadata={"later": True, "absent": "clear"})
    every: int | None = field(default=None, metadata={"later": True})  # optimizer steps; None: between stages
    # 1: moments were cleared and the whole tensor's step count restarted
    revision: int = field(default=2, metadata={"later": True, "absent": 1})

    def __post_init__(self) -> None:
        at_least(0, self.threshold, "ReDo.threshold is the score up to which a unit is dormant")
        at_least(1, self.num_examples, "ReDo.num_examples is how many examples are scored")

    def after_step(self, learner: Learner, state: State) -> None:
        take_own_steps_(learner, state, self.moments)

    @torch.no_grad()
    def end_stage(self, learner: Learner, state: State, data: Iterable[Batch]) -> None:
        layers = self.layers(learner)
        with undisturbed_reading(data, learner.device):
            magnitudes = mean_magnitudes(learner, layers, first_inputs(data, self.num_examples))
        for layer in layers:
            chosen = UnitSelection.all_of(self.dormant(magnitudes[layer.name]))
            if len(chosen.units_K):
                renew_units_(learner, state, layer, chosen, new_bias=draw_bias, moments=self.moments)

    def dormant(self, magnitude_U: Tensor) -> Tensor:
        """Which units of a layer are dormant, by their mean |h|."""
        score_U = magnitude_U / (magnitude_U.mean() + EPSILON)
        return score_U <= max(self.threshold, ZERO)


def draw_bias(learner: Learner, producer: Layer, num_units: int) -> Tensor | float:
    """Fresh biases, drawn from the layer's initial ones if it has any."""
    return 0.0 if producer.bias is None else draw(learner, producer.bias, num_units)


def first_inputs(data: Iterable[Batch], num_examples: int) -> Iterator[Inputs]:
    """The inputs of the data, batch by batch, up to that many examples."""
    for inputs, _ in map(pair_of, data):
        yield mapped(lambda x: x[:num_examples] if x.dim() else x, inputs)  # noqa: B023
        num_examples -= num_examples_of(inputs)
        if num_examples <= 0:
            return
