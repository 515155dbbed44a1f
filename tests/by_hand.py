"""Networks small enough for paper and pencil, with their unit graphs written down, not traced."""

import itertools

import torch
from torch import Tensor, nn

from supple.learner import Learner
from supple.units import Consumer, UnitGraph, UnitLayer


def linear(weight: list[list[float]], bias: list[float] | None = None) -> nn.Linear:
    """A linear layer with these weights."""
    layer = nn.Linear(len(weight[0]), len(weight), bias=bias is not None)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weight))
        if bias is not None:
            layer.bias.copy_(torch.tensor(bias))
    return layer


def three_units() -> nn.Sequential:
    """Two inputs, three units, two outputs. On the input (1, 1) the units give 2, 1 and 0: the last is dead there."""
    first = linear([[1.0, 1.0], [2.0, -1.0], [-1.0, -1.0]], [0.0, 0.0, 0.5])
    return nn.Sequential(first, nn.ReLU(), linear([[1.0, 2.0, 3.0], [4.0, -5.0, 6.0]], [7.0, 8.0]))


def chain(*widths: int) -> nn.Sequential:
    """Linear layers of these widths with ReLU between, torch's own initialisation."""
    layers: list[nn.Module] = []
    for num_inputs, num_outputs in itertools.pairwise(widths):
        layers += [nn.Linear(num_inputs, num_outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def conv_net() -> nn.Sequential:
    """Two channels on a 4x4 map, pooled to 2x2 and flattened: channel i owns the columns 4i to 4i + 3 at the end."""
    return nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(8, 3)
    )


def unit_layer(model: nn.Sequential, index: int, **changes: object) -> UnitLayer:
    """The activation at an index of a chain: the layer before feeds it, the layer after reads it column by column."""
    before, after = model[index - 1], model[index + 1]
    fields = {
        "name": str(index),
        "activation": model[index],
        "producer": before,
        "norm": None,
        "consumers": (Consumer(after, torch.arange(len(before.weight))[:, None]),),
        "sums_in": False,
        "sums_out": False,
        "unclear": "",
        "num_units": len(before.weight),
    }
    return UnitLayer(**(fields | changes))


def chain_graph(model: nn.Sequential) -> UnitGraph:
    """The unit graph of a chain of linear layers."""
    sites = [index for index, module in enumerate(model) if isinstance(module, nn.ReLU)]
    return UnitGraph(tuple(unit_layer(model, index) for index in sites), ())


def conv_graph(model: nn.Sequential) -> UnitGraph:
    """The unit graph of ``conv_net``."""
    layer = UnitLayer(
        name="2",
        activation=model[2],
        producer=model[0],
        norm=model[1],
        consumers=(Consumer(model[5], torch.tensor([[0, 1, 2, 3], [4, 5, 6, 7]])),),
        sums_in=False,
        sums_out=False,
        unclear="",
        num_units=2,
    )
    return UnitGraph((layer,), ())


def learner_of(model: nn.Sequential, optimizer: torch.optim.Optimizer | None = None, **options: object) -> Learner:
    """A learner whose unit graph is written down; SGD at 0.1 unless told."""
    learner = Learner(model, optimizer or torch.optim.SGD(model.parameters(), lr=0.1), **options)
    learner.units = conv_graph(model) if isinstance(model[0], nn.Conv2d) else chain_graph(model)
    return learner


def train_step(learner: Learner, inputs: Tensor) -> None:
    """A forward, a backward and a step of the optimizer."""
    learner.optimizer.zero_grad()
    learner.model(inputs).square().sum().backward()
    learner.optimizer.step()


def copied_state(model: nn.Module) -> dict[str, Tensor]:
    """All parameters and buffers, as they are now."""
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}
