"""The unit graph: which weights feed a hidden unit, which weights it feeds, what norm lies between.

A unit is a neuron of a linear layer or a channel of a convolution, seen at its activation site. The graph is traced
from the model with an example input (`supple.units`), never guessed from the order of modules.
"""

from collections import UserDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

Layer = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d
# Arguments of a forward: one tensor, a tuple of several, or by name (UserDict: what a tokenizer gives).
Inputs = Tensor | tuple[Tensor, ...] | dict[str, Any] | UserDict[str, Any]


def is_layer(module: nn.Module) -> TypeGuard[Layer]:
    """Whether it is one of torch's layers, or GPT-2's Conv1D, known by its name: transformers need not be installed."""
    weight = module._parameters.get("weight")
    is_conv1d = type(module).__name__ == "Conv1D" and weight is not None and weight.dim() == 2
    return isinstance(module, Layer) or is_conv1d


def out_dim(layer: Layer) -> int:
    """The dimension of the weight that its outputs lie along: 0, but 1 in GPT-2's Conv1D, which computes x @ weight."""
    return 0 if isinstance(layer, Layer) else 1


def in_dim(layer: Layer) -> int:
    """The dimension of the weight that its inputs lie along."""
    return 1 - out_dim(layer)


@dataclass(frozen=True, eq=False)
class Consumer:
    """A layer that reads the units: unit i owns the input columns (or channels) ``columns_US[i]`` of its weight.

    Columns are entries along `in_dim` of the weight, rows those along `out_dim`.

    One column for a layer of the same kind; H * W of them where a convolution is flattened into a linear layer; two
    where the activation concatenates (CReLU, Fourier).
    """

    layer: Layer
    columns_US: Tensor

    @cached_property
    def is_one_to_one(self) -> bool:
        """Whether the columns are the units, in their order."""
        num_columns = self.layer.weight.shape[in_dim(self.layer)]
        return self.columns_US.flatten().tolist() == [*range(num_columns)] and self.columns_US.shape[1] == 1


@dataclass(frozen=True, eq=False)
class UnitLayer:
    """One activation site with the weights around it."""

    name: str  # of the activation module, as in model.named_modules()
    activation: nn.Module
    producer: Layer | None  # its rows are the units' incoming weights; None if a sum or something else makes them
    norm: nn.Module | None  # the normalisation between producer and activation
    consumers: tuple[Consumer, ...]
    sums_in: bool  # the activation's input is a residual sum
    sums_out: bool  # the activation's output enters a residual sum; who reads the sum is not among the consumers
    unclear: str  # why producer, norm or consumers are not known, or not the units' own; empty if all is clear
    num_units: int
    unit_dim: int = 1  # where the units lie in the activation's input and output
    # Further layers whose rows are the units' own: what they give is multiplied by the activation's output (SwiGLU).
    partners: tuple[Layer, ...] = ()

    @property
    def residual(self) -> bool:
        """Whether a residual sum touches the units on either side."""
        return self.sums_in or self.sums_out

    @property
    def resettable(self) -> bool:
        """Whether a unit can be renewed without touching another: its own rows in, all its columns out."""
        return self.producer is not None and bool(self.consumers) and not self.residual and not self.unclear


@dataclass(frozen=True, eq=False)
class UnitGraph:
    """All hidden layers from input to output; the output layer has no entry."""

    layers: tuple[UnitLayer, ...]
    skipped: tuple[str, ...]  # sentences: functional activations and other sites that have no module to watch
    unreached: tuple[tuple[str, Layer], ...] = ()  # layers that the forward does not call, by name

    def __iter__(self) -> Iterator[UnitLayer]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, name: str) -> UnitLayer:
        found = next((layer for layer in self.layers if layer.name == name), None)
        if found is None:
            sites = ", ".join(layer.name for layer in self.layers) or "none"
            raise KeyError(f"no activation site named {name!r} in this graph. Its sites: {sites}.")
        return found


def columns_of(consumer: Consumer, units_K: Tensor) -> Tensor:
    """The input columns that the units own, one after the other."""
    return torch.index_select(consumer.columns_US.to(units_K.device), 0, units_K).flatten()


class UntraceableModel(RuntimeError):
    """The unit graph of a model cannot be had; says which module stopped it and what to do."""


def arguments_of(inputs: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs as positional and as named arguments of the forward."""
    if isinstance(inputs, dict | UserDict):
        return (), dict(inputs)
    return inputs if isinstance(inputs, tuple) else (inputs,), {}


def trace_units(model: nn.Module, example_input: Inputs) -> UnitGraph:
    """The hidden layers of a model, from its input to its output, as it runs in evaluation mode.

    ``example_input`` is a batch the model takes, a tuple of its arguments, or a dict of named ones; only shapes and
    types matter. The model is left as it was. Raises `UntraceableModel` where the forward has no graph, naming the
    module that stopped it.
    """
    # Here, so that `import supple` does not load the tracer.
    from supple.units.export import export_graph
    from supple.units.follow import find_sites, incoming_values, unit_layer

    check_model(model)
    graph = export_graph(model, *arguments_of(example_input))
    sites, skipped = find_sites(graph)
    known, by_node = incoming_values(graph), {node: site for site in sites for node in site.nodes}
    layers = (unit_layer(graph, site, known=known, sites=by_node) for site in sites)
    return UnitGraph(tuple(layers), tuple(skipped), tuple(graph.unreached()))


def check_model(model: object) -> None:
    """Refuse what has no Python forward to trace."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"trace_units needs the model as an nn.Module; got {model!r}.")
    if isinstance(model, torch.jit.ScriptModule):
        raise TypeError("trace_units cannot look into TorchScript. Trace the Python model.")
