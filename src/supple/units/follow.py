"""Following units through the graph: where activations stand, what feeds them, what reads them."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.fx import Node

from supple import activations
from supple.activations import ACTIVATIONS, RECURRENT, relative
from supple.units import Consumer, Layer, UnitLayer
from supple.units.graph import TRANSPOSED_OPS, Graph, factors, is_unread, op_name, operands, shape_of
from supple.units.moves import (
    JOINS,
    NORMS,
    RESHAPES,
    SUMS,
    Blocked,
    Owner,
    collapsed,
    dim_of_norm,
    first_output,
    for_outputs,
    is_foreign,
    is_pointwise,
    moved,
    owners_along,
    tensor,
    unit_dim,
    usual_dim,
)

# A module of its own that does nothing else is no activation.
LINEAR_OPS = {
    *("add", "sub", "rsub", "mul", "div", "neg", "alias", "clone", "contiguous", "copy", "detach", "to", "_to_copy"),
    *("dropout", "feature_dropout", "alpha_dropout", "lift_fresh_copy"),
}
WRITE_BACK = {*RESHAPES, "alias", "permute", "transpose", "slice_scatter", "select_scatter", "slice", "select"}
CLASS_OF_OP = {name.rstrip("_"): known.cls for known in ACTIVATIONS for name in known.names}
FUNCTIONS = {*CLASS_OF_OP, "hardtanh", "celu", "hardsigmoid", "rrelu", "softsign", "log_sigmoid", "threshold"}


@dataclass(frozen=True, eq=False)
class Site:
    """One call of an activation module: the nodes it consists of, what it reads and what others read of it."""

    module: nn.Module
    nodes: frozenset[Node]
    input: Node
    output: Node


def find_sites(graph: Graph) -> tuple[list[Site], list[str]]:
    """The sites in order, and in words the activations that cannot be watched."""
    calls = activation_calls(graph)
    num_calls = Counter(module for module, _ in calls)
    sites = [site for module, call in calls if num_calls[module] == 1 and (site := site_of(graph, module, call))]
    reused = [reuse_words(graph, module) for module, number in num_calls.items() if number > 1]
    skipped = [*reused, *functional_words(graph, calls), *idle_words(graph, sites, num_calls)]
    recurrent = [module for module in graph.names if isinstance(module, RECURRENT)]
    skipped += [f"the units of {graph.module_name(module)} are computed inside torch." for module in recurrent]
    return sites, list(dict.fromkeys(skipped))


def activation_calls(graph: Graph) -> list[tuple[nn.Module, list[Node]]]:
    """Every call of an activation module with its nodes."""
    calls: dict[str, tuple[nn.Module, list[Node]]] = {}
    for node in graph.nodes:
        if node.op == "call_function" and (call := activation_around(graph, node)):
            calls.setdefault(call[0], (call[1], []))[1].append(node)
    trimmed = [(module, without_write_back(nodes)) for module, nodes in calls.values()]
    return [(module, nodes) for module, nodes in trimmed if is_activation(module) or bends(graph, nodes)]


def activation_around(graph: Graph, node: Node) -> tuple[str, nn.Module] | None:
    """The call of an activation the node is part of, or of a module without parts that may turn out to be one."""
    calls = list(graph.modules_of(node))
    if found := next((call for call in calls if is_activation(call[1])), None):
        return found
    if not calls or calls[-1][1] is graph.model or any(calls[-1][1].children()):
        return None
    return calls[-1]


def without_write_back(nodes: list[Node]) -> list[Node]:
    """The nodes of a call without those that put an in-place result back to where a view came from."""
    num_own = len(nodes)
    while num_own > 1 and op_name(nodes[num_own - 1]) in WRITE_BACK:
        num_own -= 1
    return nodes[:num_own]


def is_activation(module: nn.Module) -> bool:
    """Whether the module is an activation that gives each unit what it makes of that unit alone."""
    return activations.is_activation(module) and relative(module).per_unit


def bends(graph: Graph, nodes: list[Node]) -> bool:
    """Whether the nodes of an unknown module are an activation: one tensor in, pointwise, not linear."""
    own = [node for node in nodes if node in graph.data]
    if not all(is_pointwise(node) or op_name(node) == "cat" for node in own) or len(inputs_of(graph, own)) != 1:
        return False
    return any(op_name(node) not in LINEAR_OPS or len(graph.data_operands(node)) > 1 for node in own)


def site_of(graph: Graph, module: nn.Module, nodes: list[Node]) -> Site | None:
    """The site of a call; None if its output is not read, or it has several or reads several tensors."""
    inputs = inputs_of(graph, nodes)
    outputs = [node for node in nodes if any(user not in nodes for user in node.users)]
    if len(inputs) != 1 or len(outputs) != 1:
        return None
    return Site(module, frozenset(nodes), inputs[0], outputs[0])


def inputs_of(graph: Graph, nodes: list[Node]) -> list[Node]:
    """The tensors from outside that the nodes read, once each."""
    return list(dict.fromkeys(o for node in nodes for o in graph.data_operands(node) if o not in nodes))


def reuse_words(graph: Graph, module: nn.Module) -> str:
    """That one instance serves several places."""
    return (
        f"{graph.module_name(module)} is called at several places of one forward, and a hook cannot tell them apart: "
        f"give each its own module; {conversion(type(module))} does where it can."
    )


def functional_words(graph: Graph, calls: list[tuple[nn.Module, list[Node]]]) -> Iterator[str]:
    """The activations called as functions."""
    inside = {node for _, nodes in calls for node in nodes}
    for node in graph.nodes:
        name = op_name(node)
        if node.op == "call_function" and node not in inside and name in FUNCTIONS and node in graph.data:
            cls = CLASS_OF_OP.get(name)
            way_out = f"; {conversion(cls)} does where it can" if cls else ""
            yield f"{graph.where(node)} is a function, with no module to watch: hold it as a submodule{way_out}."


def idle_words(graph: Graph, sites: list[Site], num_calls: Counter[nn.Module]) -> Iterator[str]:
    """The activation modules that the graph does not show at work."""
    watched = {site.module for site in sites}
    for module in graph.names:
        if is_activation(module) and module not in watched and num_calls[module] < 2:
            yield f"{graph.module_name(module)} turns no tensor into another in evaluation mode with this input."


def conversion(cls: type[nn.Module]) -> str:
    """The conversion that gives every call of the activation a module of its own."""
    name = f"nn.{cls.__name__}" if cls.__module__ == nn.ReLU.__module__ else cls.__name__
    return (
        f"supple.convert(model, {name}())" if cls is nn.ReLU else f"supple.convert(model, {name}(), replace=({name},))"
    )


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
    """Return where the units come from, for every value whose units are known."""
    known: dict[Node, Incoming] = {}
    for node in graph.nodes:
        if node.op == "call_function" and (incoming := incoming_of(graph, node, known)):
            known[node] = incoming
    return known


def incoming_of(graph: Graph, node: Node, known: Known) -> Incoming | None:
    """Where the units of one operation's output come from; None if it is not known."""
    if graph.is_layer_op(node) or op_name(node) in TRANSPOSED_OPS:
        return produced(graph, node)
    operands = graph.data_operands(node)
    parts = [known[operand] for operand in operands if operand in known]
    if not parts:
        return None
    if op_name(node) in NORMS:
        return normalised(graph, node, parts[0])
    is_one = all(part.origin is parts[0].origin and part.norm is parts[0].norm for part in parts)
    if len(operands) > 1 and not (len(parts) == len(operands) and is_one):
        return combined(graph, node, parts)
    try:
        owners = {operand: known[operand].owner for operand in operands}
        return replace(parts[0], owner=moved(node, owners, graph.data))
    except Blocked:
        return None


def produced(graph: Graph, node: Node) -> Incoming:
    """Fresh units: the outputs of a layer."""
    shape = shape_of(node)
    dim = len(shape) + 1 - len(shape_of(factors(node)[1]))  # before the spatial ones, as many as the weight has
    owner = owners_along(dim, shape, num_units=shape[dim])
    layer = graph.layer_of(node)
    if layer is None:
        return Incoming(owner, node, unclear=f"{graph.where(node)} does not multiply by the weight of a layer")
    return Incoming(owner, node, producer=layer, unclear=graph.sharing(layer))


def normalised(graph: Graph, node: Node, part: Incoming) -> Incoming | None:
    """The same units behind a norm."""
    if not isinstance(part.owner, Tensor):
        return None
    unclear = part.unclear or norm_mismatch(graph, node, part)
    return replace(part, owner=for_outputs(node, part.owner), norm=graph.norm_of(node), unclear=unclear)


def norm_mismatch(graph: Graph, node: Node, part: Incoming) -> str:
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
    unclear = incoming.unclear or leak(graph, incoming, known, readers=site.nodes)
    return replace(incoming, unclear=unclear), dim


def leak(graph: Graph, incoming: Incoming, known: Known, *, readers: Collection[Node]) -> str:
    """In words, who else reads what the producer makes, past the readers; empty if nothing does."""
    if incoming.producer is None:
        return ""
    origin = incoming.origin
    pending, seen = [origin], {origin}
    while pending:
        for user in pending.pop().users:
            if user in readers or user in seen or is_unread(user):
                continue
            if user not in known or known[user].origin is not origin:
                reader = "the output of the model" if user.op == "output" else graph.where(user)
                return f"what produces them is also read by {reader}"
            seen.add(user)
            pending.append(user)
    return ""


NUM_REASONS_SHOWN = 3  # in a densely connected network one site may have dozens


class Walk:
    """Follows the units of one site up to the layers that read them; ``reasons`` say where they could not be."""

    def __init__(self, graph: Graph, site: Site, sites: dict[Node, Site], *, known: Known, num_units: int) -> None:
        self.graph, self.site, self.known, self.num_units = graph, site, known, num_units
        self.sites = {node: other for node, other in sites.items() if other is not site}
        self.owners: dict[Node, Owner] = {}
        self.consumers: list[Consumer] = []
        self.partners: list[Layer] = []
        self.reasons: list[str] = []
        self.summed = False

    def run(self, dim: int) -> None:
        """Follow the units, which lie along this dimension at the site."""
        shape = shape_of(self.site.output)
        if len(shape) != len(shape_of(self.site.input)) or shape[dim] % self.num_units:
            self.reasons.append("its output does not have the units of its input")
            return
        self.owners[self.site.output] = owners_along(dim, shape, num_units=self.num_units)
        for node in self.graph.nodes[self.graph.nodes.index(self.site.output) + 1 :]:
            if not is_unread(node) and any(operand in self.owners for operand in operands(node)):
                self.visit(node)

    def visit(self, node: Node) -> None:
        """Go through one operation, or stop at it."""
        if node.op == "output":
            self.reasons.append("they reach the output of the model without a layer between")
        elif node in self.sites:
            module = self.graph.module_name(self.sites[node].module)
            self.reasons.append(f"{module} comes after them, no layer between")
        elif self.graph.is_layer_op(node):
            self.enter_layer(node)
        elif op_name(node) in SUMS and any(o not in self.owners for o in self.graph.data_operands(node)):
            self.summed = True
        elif op_name(node) != "mul" or not self.join_partner(node):
            self.pass_through(node)

    def join_partner(self, product: Node) -> bool:
        """Whether a layer's output, which nothing else reads, multiplies the units one by one: SwiGLU's up."""
        others = [operand for operand in self.graph.data_operands(product) if operand not in self.owners]
        incoming = self.known.get(others[0]) if len(others) == 1 else None
        if incoming is None or incoming.producer is None or incoming.unclear:
            return False
        owner = next(self.owners[operand] for operand in product.all_input_nodes if operand in self.owners)
        is_its_output = incoming.producer in [module for _, module in self.graph.modules_of(others[0])]
        leaks = leak(self.graph, incoming, self.known, readers=[product])
        if not is_its_output or leaks or not torch.equal(tensor(owner), tensor(incoming.owner)):
            return False
        self.partners.append(incoming.producer)
        self.owners[product] = owner
        return True

    def pass_through(self, node: Node) -> None:
        """Follow the units to the output of an operation that is no layer."""
        try:
            owner = moved(node, self.owners, self.graph.data)
            if not (isinstance(owner, Tensor) and is_foreign(owner)):
                self.owners[node] = owner
        except Blocked as reason:
            self.reasons.append(f"{self.graph.where(node)}: {reason}")

    def enter_layer(self, node: Node) -> None:
        """Take down a layer that reads the units."""
        layer, value = self.graph.layer_of(node), factors(node)[0]
        if layer is None or value not in self.owners:
            self.reasons.append(f"{self.graph.where(node)} does not multiply them by the weight of a layer")
            return
        try:
            columns_US = columns_of_units(layer, tensor(self.owners[value]), num_units=self.num_units)
            self.consumers.append(Consumer(layer, columns_US.to(layer.weight.device)))
        except Blocked as reason:
            self.reasons.append(f"{self.graph.module_name(layer)}: {reason}")
        if sharing := self.graph.sharing(layer):
            self.reasons.append(sharing)


def listed(reasons: list[str]) -> str:
    """The first reasons, and how many more there are."""
    more = len(reasons) - NUM_REASONS_SHOWN
    return "; ".join(reasons[:NUM_REASONS_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def columns_of_units(layer: Layer, owner: Tensor, *, num_units: int) -> Tensor:
    """The input columns of the layer's weight that each unit owns, given the owners of its input."""
    if getattr(layer, "groups", 1) != 1:
        raise Blocked(f"a {type(layer).__name__} in groups has no input columns of its own for a unit")
    dim = owner.dim() - (layer.weight.dim() - 1)
    column_owner = collapsed(owner, [d for d in range(owner.dim()) if d != dim]).flatten()
    counts = torch.bincount(column_owner[column_owner >= 0], minlength=num_units)
    if not bool((counts == counts[0]).all()):
        raise Blocked("it reads some of the units more than others")
    order = column_owner.argsort(stable=True)
    return order[-int(counts.sum()) :].view(num_units, -1)


def unit_layer(graph: Graph, site: Site, *, known: Known, sites: dict[Node, Site]) -> UnitLayer:
    incoming, dim = incoming_at(graph, site, known)
    num_units = shape_of(site.input)[dim]
    walk = Walk(graph, site, sites, known=known, num_units=num_units)
    walk.run(dim)
    return UnitLayer(
        name=graph.names[site.module],
        activation=site.module,
        producer=incoming.producer,
        norm=incoming.norm,
        consumers=tuple(walk.consumers),
        sums_in=incoming.summed,
        sums_out=walk.summed,
        unclear="; ".join(filter(None, (incoming.unclear, listed(list(dict.fromkeys(walk.reasons)))))),
        num_units=num_units,
        unit_dim=dim,
        partners=tuple(walk.partners),
    )
