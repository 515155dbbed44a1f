"""Tracing the unit graph: the model is exported with an example input, its units followed from layer to layer."""

import torch
from torch import Tensor, nn
from torch.fx import Node

from supple.tracing.export import export_graph
from supple.tracing.graph import Graph, shape_of
from supple.tracing.incoming import Known, incoming_at, incoming_values
from supple.tracing.outgoing import Outgoing, Walk
from supple.tracing.owners import owners_along
from supple.tracing.sites import Site, find_sites
from supple.tracing.untraceable import UntraceableModel
from supple.units import UnitGraph, UnitLayer

__all__ = ["UntraceableModel", "trace_units"]


def trace_units(model: nn.Module, example_input: Tensor | tuple[Tensor, ...]) -> UnitGraph:
    """The hidden layers of a model, from its input to its output, as it runs in evaluation mode.

    ``example_input`` is a batch the model takes, or a tuple of its arguments; only shapes and types matter. The model
    is left as it was. Raises `UntraceableModel` where the forward has no graph, naming the module that stopped it.
    """
    check_model(model)
    graph = export_graph(model, example_input if isinstance(example_input, tuple) else (example_input,))
    sites, skipped = find_sites(graph)
    known, by_node = incoming_values(graph), {node: site for site in sites for node in site.nodes}
    layers = (unit_layer(graph, site, known=known, sites=by_node) for site in sites)
    return UnitGraph(tuple(layers), tuple(skipped))


def check_model(model: object) -> None:
    """Refuse what has no Python forward to trace."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"trace_units needs the model as an nn.Module; got {model!r}.")
    if isinstance(model, torch.jit.ScriptModule):
        raise TypeError("trace_units cannot look into TorchScript. Trace the Python model.")


def unit_layer(graph: Graph, site: Site, *, known: Known, sites: dict[Node, Site]) -> UnitLayer:
    """One site with the weights around it."""
    incoming, dim = incoming_at(graph, site, known)
    num_units = shape_of(site.input)[dim]
    outgoing = outgoing_of(graph, site, dim=dim, num_units=num_units, sites=sites)
    return UnitLayer(
        name=graph.names[site.module],
        activation=site.module,
        producer=incoming.producer,
        norm=incoming.norm,
        consumers=outgoing.consumers,
        sums_in=incoming.summed,
        sums_out=outgoing.summed,
        unclear="; ".join(filter(None, (incoming.unclear, outgoing.unclear))),
        num_units=num_units,
        unit_dim=dim,
    )


def outgoing_of(graph: Graph, site: Site, *, dim: int, num_units: int, sites: dict[Node, Site]) -> Outgoing:
    """Who reads the units of a site."""
    others, shape = {node: other for node, other in sites.items() if other is not site}, shape_of(site.output)
    if len(shape) != len(shape_of(site.input)) or shape[dim] % num_units:
        return Outgoing((), summed=False, unclear="its output does not have the units of its input")
    owner = owners_along(dim, shape, num_units=num_units)
    return Walk(graph, site, others, num_units=num_units).run(owner)
