"""Surgery on units: the only code that writes to weights and norms of single units.

Everything is written through index_copy_, for `weight[units].zero_()` and its like change a copy and nothing else. A
fixed number K of units is picked together with a mask of those that are due, so that no shape depends on a value and a
step that renews units can be captured in a CUDA graph.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from supple.kernels.renewal import Value
from supple.layers import PReLU
from supple.units import Layer, UnitGraph, UnitLayer, columns_of, in_dim, out_dim
from supple.warn import warn

Fresh = tuple[Value, Value]  # rows of a weight, and biases
MAX_REASONS = 3  # what a message can hold; trace_units(model, x) shows all
UNREACHED = "not reached by forward in evaluation mode: what units of other layers feed into it is not zeroed"


@dataclass(frozen=True, eq=False)
class UnitSelection:
    """K units of a layer, of which only those that are due are touched."""

    units_K: Tensor
    due_K: Tensor

    @classmethod
    def all_of(cls, mask_U: Tensor) -> "UnitSelection":
        """Every unit under the mask."""
        units_K = mask_U.nonzero().flatten()
        return cls(units_K, torch.ones_like(units_K, dtype=torch.bool))


@dataclass(frozen=True, eq=False)
class Entries:
    """A part of a parameter or buffer that belongs to the chosen units: these indices along one dimension."""

    tensor: Tensor
    dim: int
    indices: Tensor
    due: Tensor

    def of(self, tensor: Tensor) -> "Entries":
        """The same entries of another tensor, such as a moment."""
        return Entries(tensor, self.dim, self.indices, self.due)

    def write_(self, value: Tensor | float) -> None:
        """Give the entries that are due a value."""
        now = self.tensor.index_select(self.dim, self.indices)
        due = self.due.view([-1 if dim == self.dim else 1 for dim in range(self.tensor.dim())])
        # A number in masked_fill_, because `where` would first put it into a tensor: on a GPU one launch more.
        new = torch.where(due, value, now) if isinstance(value, Tensor) else now.masked_fill_(due, value)
        self.tensor.index_copy_(self.dim, self.indices, new)


def renewable_layers(graph: UnitGraph, optimizer: torch.optim.Optimizer) -> list[UnitLayer]:
    """The layers whose units can be renewed, from input to output; none while all of them are frozen."""
    trained = trained_by(optimizer)
    return [layer for layer in graph if not hindrance(layer, trained)]


def check_renewable(graph: UnitGraph, optimizer: torch.optim.Optimizer, who: str) -> None:
    """Refuse a network that has no such layers, in the name of the method that asks."""
    if renewable_layers(graph, optimizer):
        return
    trained = trained_by(optimizer)
    of_layers = first_of([f"'{layer.name}': {hindrance(layer, trained)}" for layer in graph], "; ")
    skipped = first_of([words.rstrip(".") for words in graph.skipped], "; ")  # often with a way out
    raise ValueError(
        f"{who} makes single hidden units new, and this network has none where that can be done "
        f"({'; '.join(filter(None, (of_layers, skipped))) or 'it has no hidden layer'}). Use a method that needs no "
        "units, such as L2Init or ShrinkPerturb, or give the network activation modules between plain linear or "
        "convolutional layers."
    )


def reasons_left(graph: UnitGraph, optimizer: torch.optim.Optimizer, *, served: list[UnitLayer]) -> list[str]:
    """A sentence for each hidden layer that is not served."""
    names, trained = {layer.name for layer in served}, trained_by(optimizer)
    left = [layer for layer in graph if layer.name not in names]
    return [f"'{layer.name}': {hindrance(layer, trained) or 'more than one layer reads it'}" for layer in left]


def unreached(graph: UnitGraph, optimizer: torch.optim.Optimizer) -> list[str]:
    """A sentence for each trained layer that the trace did not reach, such as a head that another method calls."""
    trained = trained_by(optimizer)
    named = [name for name, layer in graph.unreached if any(id(p) in trained for p in layer.parameters())]
    return [f"'{name}': {UNREACHED}" for name in named]


def warn_of_others(graph: UnitGraph, optimizer: torch.optim.Optimizer, who: str, *, served: list[UnitLayer]) -> None:
    """Name the hidden layers that a method leaves alone for another reason than a residual sum, which is by design."""
    by_design = [layer for layer in graph if layer.residual and not layer.unclear]
    skipped = (words.rstrip(".") for words in graph.skipped)
    reasons = [*reasons_left(graph, optimizer, served=[*served, *by_design]), *skipped]
    if reasons:
        warn(f"{who} leaves {len(reasons)} of the network's hidden layers alone ({first_of(reasons, '; ')}).")
    if names := [sentence.partition(":")[0] for sentence in unreached(graph, optimizer)]:
        warn(
            f"{who} leaves {len(names)} of the trained layers alone ({first_of(names, ', ')}), {UNREACHED}. Give the "
            "model a forward that calls all that is trained, also in evaluation mode."
        )


def first_of(sentences: list[str], joint: str) -> str:
    return joint.join([*sentences[:MAX_REASONS], *(["..."] if len(sentences) > MAX_REASONS else [])])


def trained_by(optimizer: torch.optim.Optimizer) -> set[int]:
    """The ids of all parameters that the optimizer trains; frozen ones it only holds."""
    held = (parameter for group in optimizer.param_groups for parameter in group["params"])
    return {id(parameter) for parameter in held if parameter.requires_grad}


def hindrance(layer: UnitLayer, trained: set[int]) -> str:
    """Why the layer's units cannot be renewed each by itself; empty if they can."""
    if not layer.resettable:
        return layer.unclear or ("a residual sum shares its units" if layer.residual else "no layer feeds or reads it")
    weights = [at.weight for at in (*producers_of(layer), *(consumer.layer for consumer in layer.consumers))]
    # Under a weight norm or another parametrization each forward computes the weight again: writing is in vain.
    if not all(isinstance(weight, nn.Parameter) for weight in weights):
        return "a parametrization computes its weights"
    if not all(weight.requires_grad for weight in weights):
        return "its weights are frozen"
    # What another optimizer remembers of its units cannot be cleared here.
    return "" if all(id(weight) in trained for weight in weights) else "the optimizer does not train its weights"


def renewed(
    layer: UnitLayer, chosen: UnitSelection, fresh: Sequence[Fresh], trained: set[int]
) -> Iterator[tuple[Entries, Value]]:
    """What is written of the chosen units to make them new: fresh weights in, a fresh norm and slope, no weights out.

    ``fresh`` are the weights and biases of each layer that feeds them, in its own layout. What is not trained stays; so
    do a norm's statistics if a part of it is frozen: then they belong to what stays. The readers' biases stay.
    """
    for producer, values in zip(producers_of(layer), fresh, strict=True):
        yield from zip(rows(producer, chosen, trained), values, strict=False)
    for name, value in (("weight", 1.0), ("bias", 0.0)):
        for entries in norm_entries(layer, chosen, name, trained):
            yield entries, value
    if layer.norm is not None and all(id(parameter) in trained for parameter in layer.norm.parameters()):
        for name, value in (("running_mean", 0.0), ("running_var", 1.0)):
            statistics = getattr(layer.norm, name, None)
            if statistics is not None:
                yield Entries(statistics, 0, chosen.units_K, chosen.due_K), value
    for entries in slopes(layer, chosen, trained):
        yield entries, PReLU.START
    for entries in outgoing(layer, chosen):
        yield entries, 0.0


def trained_entries(layer: UnitLayer, chosen: UnitSelection, trained: set[int]) -> Iterator[Entries]:
    """All that belongs to the units and that the optimizer trains."""
    for producer in producers_of(layer):
        yield from rows(producer, chosen, trained)
    yield from norm_entries(layer, chosen, "weight", trained)
    yield from norm_entries(layer, chosen, "bias", trained)
    yield from slopes(layer, chosen, trained)
    yield from outgoing(layer, chosen)


def rows(producer: Layer, chosen: UnitSelection, trained: set[int]) -> Iterator[Entries]:
    """The units' rows of the weight, then their biases if there are any that are trained."""
    yield Entries(producer.weight, out_dim(producer), chosen.units_K, chosen.due_K)
    if producer.bias is not None and id(producer.bias) in trained:
        yield Entries(producer.bias, 0, chosen.units_K, chosen.due_K)


def producers_of(layer: UnitLayer) -> tuple[Layer, ...]:
    """The layer that feeds the units, then its partners; every renewable layer has one."""
    assert layer.producer is not None, f"no layer feeds the units of '{layer.name}'"
    return layer.producer, *layer.partners


def norm_entries(layer: UnitLayer, chosen: UnitSelection, name: str, trained: set[int]) -> Iterator[Entries]:
    """The units' part of a parameter of the norm, if there is a norm and it trains that parameter."""
    parameter = getattr(layer.norm, name, None)
    if parameter is not None and id(parameter) in trained:
        yield Entries(parameter, 0, chosen.units_K, chosen.due_K)


def slopes(layer: UnitLayer, chosen: UnitSelection, trained: set[int]) -> Iterator[Entries]:
    """The units' slopes, if their activation has one for each and trains it."""
    if isinstance(layer.activation, PReLU) and id(layer.activation.weight) in trained:
        yield Entries(layer.activation.weight, 0, chosen.units_K, chosen.due_K)


def outgoing(layer: UnitLayer, chosen: UnitSelection) -> Iterator[Entries]:
    """The units' columns in the weight of every consumer."""
    for consumer in layer.consumers:
        columns, due = chosen.units_K, chosen.due_K
        if not consumer.is_one_to_one:
            columns = columns_of(consumer, columns)
            due = due[:, None].expand(-1, consumer.columns_US.shape[1]).flatten()
        yield Entries(consumer.layer.weight, in_dim(consumer.layer), columns, due)
