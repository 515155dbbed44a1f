"""Activity of units: the mean magnitude of their post-activations, over examples and space.

In a gated layer (SwiGLU) h is the product that the outgoing weights read: the activation's output times the partner's.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from supple.inputs import num_examples_of
from supple.learner import Learner
from supple.unchanged import eager_code, evaluation_mode
from supple.units import Inputs, UnitLayer


def sum_of_magnitudes(x: Tensor, axes: list[int]) -> Tensor:
    """sum |x| over the axes."""
    if x.is_cpu:  # five times as fast as the norm there (512 x 2000 on one core: 0.5 against 2.7 ms)
        return x.abs().sum(axes, dtype=torch.float32)
    return torch.linalg.vector_norm(x, 1, axes, dtype=torch.float32)


def mean_magnitude(layer: UnitLayer, h: Tensor) -> Tensor:
    """mean |h| of each unit; of all the values it gives, where the activation concatenates."""
    return mean_of_parts(layer, sum_of_magnitudes(h, other_axes(layer, h)) / (h.numel() / h.shape[layer.unit_dim]))


def mean_value(layer: UnitLayer, h: Tensor) -> Tensor:
    """mean h of each unit, likewise."""
    return mean_of_parts(layer, h.mean(other_axes(layer, h), dtype=torch.float32))


def other_axes(layer: UnitLayer, h: Tensor) -> list[int]:
    """All but the units'."""
    return [axis for axis in range(h.dim()) if axis != layer.unit_dim]


def mean_of_parts(layer: UnitLayer, means_C: Tensor) -> Tensor:
    """One value a unit: CReLU and Fourier give the first values of all units, then the second ones."""
    return means_C if len(means_C) == layer.num_units else means_C.view(-1, layer.num_units).mean(dim=0)


def centred(layer: UnitLayer, h: Tensor, *, mean_U: Tensor) -> Tensor:
    """h without its mean, unit by unit."""
    shape = [-1 if dim == layer.unit_dim else 1 for dim in range(h.dim())]
    return h - mean_U.repeat(h.shape[layer.unit_dim] // layer.num_units).view(shape)


@torch.no_grad()
def mean_magnitudes(learner: Learner, layers: Sequence[UnitLayer], inputs: Iterable[Inputs]) -> dict[str, Tensor]:
    """mean |h| of every unit of the layers over all inputs, in evaluation mode; the network stays as it is."""
    sums: dict[str, Tensor] = {layer.name: torch.zeros(layer.num_units, device=learner.device) for layer in layers}
    num_examples = torch.zeros((), device=learner.device)
    with evaluation_mode(learner.model), eager_code(), summing(layers, sums):
        for batch in filter(num_examples_of, inputs):  # the mean of an empty one is NaN
            learner.forward_of(learner.model, batch)
            num_examples += num_examples_of(batch)
    learner.mean_over_ranks_(num_examples, *sums.values())
    if not num_examples:
        raise ValueError(
            "scoring units needs batches of the finished stage and got none; "
            "pass a list or a DataLoader, not a generator that is used up."
        )
    return {name: total / num_examples for name, total in sums.items()}


@contextmanager
def summing(layers: Sequence[UnitLayer], sums: dict[str, Tensor]) -> Iterator[None]:
    """While open, every forward adds its examples' magnitudes to the sums."""

    def taps(layer: UnitLayer) -> list[Any]:
        factors: list[Tensor] = []
        sources = (layer.activation, *layer.partners)

        def add_(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
            factors.append(output)
            if len(factors) == len(sources):
                h = functools.reduce(torch.mul, factors)
                sums[layer.name] += mean_magnitude(layer, h) * len(h)
                factors.clear()

        return [source.register_forward_hook(add_) for source in sources]

    handles = [handle for layer in layers for handle in taps(layer)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
