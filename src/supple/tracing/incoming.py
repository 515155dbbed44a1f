"""What comes in at an activation site: the layer whose rows are its units, the norm between, or a residual sum."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor, nn
from torch.fx import Node

from supple.tracing.graph import LAYER_OPS, TRANSPOSED_OPS, Graph, is_unread, op_name, shape_of
from supple.tracing.moves import JOINS, NORMS, SUMS, Owner, dim_of_norm, first_output, for_outputs, is_pointwise, moved
from supple.tracing.owners import Blocked, owners_along, unit_dim, usual_dim
from supple.tracing.sites import Site
from supple.units import Layer


@dataclass(frozen=True, eq=False)
class Incoming:
    """Where the units of a value come from. ``origin`` is the node that made them: a layer, a sum, a concatenation."""

    owner: Owner
    origin: Node
    producer: Layer | None = None
    norm: nn.Module | None = None
    summed: bool = False
    unclear: str = ""


Known = Mapping[Node, Incoming]


def incoming_values(graph: Graph) -> dict[Node, Incoming]:
    """For every value whose units can be told: where they come from."""
    known: dict[Node, Incoming] = {}
    for node in graph.nodes:
        if node.op == "call_function" and (incoming := incoming_of(graph, node, known)):
            known[node] = incoming
    return known


def incoming_of(graph: Graph, node: Node, known: Known) -> Incoming | None:
    """Where the units of one operation's output come from; None if nobody knows."""
    if op_name(node) in LAYER_OPS | TRANSPOSED_OPS:
        return produced(graph, node)
    operands = graph.data_operands(node)
    parts = [known[operand] for operand in operands if operand in known]
    if not parts:
        return None
    if op_name(node) in NORMS:
        return normalised(graph, node, parts[0])
    if len(operands) > 1 and not (len(parts) == len(operands) and of_one_origin(parts)):
        return combined(graph, node, parts)
    try:
        owners = {operand: known[operand].owner for operand in operands}
        return replace(parts[0], owner=moved(node, owners, graph.data))
    except Blocked:
        return None


def produced(graph: Graph, node: Node) -> Incoming:
    """Fresh units: the outputs of a layer."""
    shape, weight = shape_of(node), node.args[1]
    assert isinstance(weight, Node)
    dim = len(shape) + 1 - len(shape_of(weight))  # before the spatial dimensions, of which the weight has as many
    owner = owners_along(dim, shape, num_units=shape[dim])
    layer = graph.layer_of(node)
    if layer is None:
        return Incoming(owner, node, unclear=f"{graph.where(node)} does not multiply by the weight of a layer")
    return Incoming(owner, node, producer=layer, unclear=graph.sharing(layer))


def normalised(graph: Graph, node: Node, part: Incoming) -> Incoming | None:
    """The same units behind a norm."""
    if not isinstance(part.owner, Tensor):
        return None
    unclear = part.unclear or norm_obstacle(graph, node, part)
    return replace(part, owner=for_outputs(node, part.owner), norm=graph.norm_of(node), unclear=unclear)


def norm_obstacle(graph: Graph, node: Node, part: Incoming) -> str:
    """In words, why the norm does not have an entry for each unit of the part, and for no other; empty if it has."""
    norm = graph.norm_of(node)
    if part.norm is not None:
        return "two norms come before it"
    if norm is None:
        return f"{graph.where(node)} does not belong to a module of that kind"
    assert isinstance(part.owner, Tensor)
    if unit_dim(part.owner) != dim_of_norm(node, num_dims=part.owner.dim()):
        return f"{graph.module_name(norm)} does not have its entries by units"
    return graph.sharing(norm) if graph.tensor_named(node, "weight") is not None else ""


def of_one_origin(parts: list[Incoming]) -> bool:
    """Whether all parts carry the units of one layer, equally normalised."""
    return all(part.origin is parts[0].origin and part.norm is parts[0].norm for part in parts)


def combined(graph: Graph, node: Node, parts: list[Incoming]) -> Incoming | None:
    """New units, made of several tensors: by a sum, by a product, side by side."""
    if not (is_pointwise(node) or op_name(node) in JOINS):
        return None
    shape = first_output(node).shape
    owners = [p.owner for p in parts if isinstance(p.owner, Tensor) and p.owner.dim() == len(shape)]
    dims = {dim for owner in owners if (dim := unit_dim(owner)) is not None}
    dim = dims.pop() if len(dims) == 1 else usual_dim(shape)
    owner = for_outputs(node, owners_along(dim, shape, num_units=shape[dim]))
    if op_name(node) in SUMS:
        return Incoming(owner, node, summed=True)
    return Incoming(owner, node, unclear=f"{graph.where(node)} makes them of several tensors")


def incoming_at(graph: Graph, site: Site, known: Known) -> tuple[Incoming, int]:
    """What comes in at a site, and the dimension its units lie along."""
    shape, incoming = shape_of(site.input), known.get(site.input)
    dim = unit_dim(incoming.owner) if incoming and isinstance(incoming.owner, Tensor) else None
    if incoming is None or dim is None:
        dim = usual_dim(shape)
        owner = owners_along(dim, shape, num_units=shape[dim])
        return Incoming(owner, site.input, unclear="no layer before it has these units for its outputs"), dim
    unclear = incoming.unclear or leak(graph, site, known)
    return replace(incoming, unclear=unclear), dim


def leak(graph: Graph, site: Site, known: Known) -> str:
    """In words, who else reads what the producer makes, past the site; empty if nobody does."""
    origin = known[site.input].origin
    if known[origin].producer is None:
        return ""
    pending, seen = [origin], {origin}
    while pending:
        for user in pending.pop().users:
            if user in site.nodes or user in seen or is_unread(user):
                continue
            if user not in known or known[user].origin is not origin:
                return f"what produces them is also read by {reader(graph, user)}"
            seen.add(user)
            pending.append(user)
    return ""


def reader(graph: Graph, node: Node) -> str:
    """A user of a value in words."""
    return "the output of the model" if node.op == "output" else graph.where(node)
