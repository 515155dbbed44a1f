"""ReDo (Sokar et al. 2023): units that hardly fire are made new at the end of a stage."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from supple.batch import Batch, Inputs, pair_of
from supple.learner import Learner
from supple.loader_generators import undisturbed_reading
from supple.methods.activity import mean_magnitudes, num_examples_of
from supple.methods.base import Method, State
from supple.methods.copies import check_copies
from supple.surgery import Chosen, producer_of, renew_, renewable_layers, restart_steps_, warn_of_others
from supple.units import Layer, UnitLayer

ZERO = 1e-8  # a score up to here is none: what is left of an exact 0 after the means
EPSILON = 1e-9  # a layer that gives nothing has mean 0; its scores are 0, not 0/0


@dataclass(frozen=True, kw_only=True)
class ReDo(Method):
    """Recycles dormant units: those whose score, mean |h| over its mean in the layer, is at most ``threshold``.

    Scores have mean 1, so a threshold of 1 recycles about half of the units, 50 nearly all. They are taken once, in
    evaluation mode, from the post-activations. Then, from the first hidden layer to the last, a dormant unit gets fresh
    incoming weights and biases, its outgoing weights become 0, and the optimizer forgets both, with the step count of
    each tensor that was touched. In this order a network whose units are all recycled is a fresh network with a zero
    output layer, and learns; all incoming first, then all outgoing, would leave every layer but the first at 0.

    Fresh weights are drawn with replacement from the layer's own initial weights (biases from its initial biases): the
    law of the initialisation whichever it was, with no assumption. A norm before the activation is put back to scale 1
    and shift 0, for a unit that died by its norm would stay dead. Residual units, which share what they write to, stay.
    """

    name = "redo"
    threshold: float = 0.0  # tau; the paper's best on random-label MNIST with Adam at 1e-3 (50 on permuted MNIST)
    num_examples: int = 2000  # of the finished stage, at most: all of random-label MNIST's 1,600

    def __post_init__(self) -> None:
        if not self.threshold >= 0.0:
            raise ValueError(
                f"ReDo.threshold is the score up to which a unit is dormant, at least 0; got {self.threshold}."
            )
        if self.num_examples < 1:
            raise ValueError(f"ReDo.num_examples is how many examples are scored, at least 1; got {self.num_examples}.")

    def init(self, learner: Learner) -> State:
        check_copies(learner.model, "ReDo")
        layers = renewable_layers(learner.units, learner.optimizer, "ReDo")
        warn_of_others(learner.units, learner.optimizer, "ReDo", served=layers)
        return {}

    @torch.no_grad()
    def end_stage(self, learner: Learner, state: State, data: Iterable[Batch]) -> None:
        layers = renewable_layers(learner.units, learner.optimizer, "ReDo")
        with undisturbed_reading(data, learner.device):
            magnitudes = mean_magnitudes(learner, layers, first_inputs(data, self.num_examples))
        for layer in layers:
            recycle_(learner, layer, Chosen.all_of(self.dormant(magnitudes[layer.name])))

    def dormant(self, magnitude_U: Tensor) -> Tensor:
        """Which units of a layer are dormant, by their mean |h|."""
        score_U = magnitude_U / (magnitude_U.mean() + EPSILON)
        return score_U <= max(self.threshold, ZERO)


def recycle_(learner: Learner, layer: UnitLayer, chosen: Chosen) -> None:
    """Make the units new, and restart the optimizer's clock for what they are made of."""
    if not len(chosen.units_K):
        return
    weight_KI, bias_K = resampled(learner, producer_of(layer), len(chosen.units_K))
    renew_(layer, chosen, weight_KI=weight_KI, bias_K=bias_K, optimizer=learner.optimizer)
    # Without this the bias correction of an old tensor would make the first steps of fresh entries 3 times too large.
    restart_steps_(learner.optimizer, layer, chosen)


def first_inputs(data: Iterable[Batch], num_examples: int) -> Iterator[Inputs]:
    """The inputs of the data, batch by batch, up to that many examples."""
    for inputs, _ in map(pair_of, data):
        several = isinstance(inputs, tuple)
        yield tuple(part[:num_examples] for part in inputs) if several else inputs[:num_examples]
        num_examples -= num_examples_of(inputs)
        if num_examples <= 0:
            return


def resampled(learner: Learner, layer: Layer, num_rows: int) -> tuple[Tensor, Tensor]:
    """Fresh rows of a layer's weight and bias, each entry drawn from the initial ones."""
    weight_OI = learner.initial_of(layer.weight)
    weight_KI = draw(weight_OI, (num_rows, *weight_OI.shape[1:]), learner.generator)
    if layer.bias is None:
        return weight_KI, weight_KI.new_zeros(num_rows)
    return weight_KI, draw(learner.initial_of(layer.bias), (num_rows,), learner.generator)


def draw(values: Tensor, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """A tensor of entries of ``values``, each drawn with replacement."""
    return values.flatten()[torch.randint(values.numel(), shape, generator=generator, device=values.device)]
