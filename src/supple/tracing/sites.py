"""Activation sites: the calls of activation modules in a graph, and the activations that have no module to watch."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn
from torch.fx import Node

from supple.conversion.forms import FORMS, NOT_ACTIVATIONS, form_name
from supple.tracing.graph import Graph, op_name
from supple.tracing.moves import RESHAPES, is_pointwise

ACTIVATIONS_FILE, OWN_LAYERS = nn.ReLU.__module__, "supple.layers."
NOT_UNIT_WISE = (*NOT_ACTIVATIONS, nn.GLU)  # a unit of a GLU has two rows of weights
# A module of its own that does nothing else is no activation.
LINEAR_OPS = {
    *("add", "sub", "rsub", "mul", "div", "neg", "alias", "clone", "contiguous", "copy", "detach", "to", "_to_copy"),
    *("dropout", "feature_dropout", "alpha_dropout", "lift_fresh_copy"),
}
WRITE_BACK = {*RESHAPES, "alias", "permute", "transpose", "slice_scatter", "select_scatter", "slice", "select"}
CLASS_OF_OP = {form_name(form).rstrip("_"): cls for cls, forms in FORMS.items() for form in forms}
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
    """Whether the module is, or derives from, one of torch's activations or supple's."""
    own = type(module).__module__.startswith(OWN_LAYERS)
    torchs = any(cls.__module__ == ACTIVATIONS_FILE for cls in type(module).__mro__)
    return own or (torchs and not isinstance(module, NOT_UNIT_WISE))


def bends(graph: Graph, nodes: list[Node]) -> bool:
    """Whether the nodes of a module nobody has named are an activation: one tensor in, pointwise, not linear."""
    own = [node for node in nodes if node in graph.data]
    if not all(is_pointwise(node) or op_name(node) == "cat" for node in own) or len(inputs_of(graph, own)) != 1:
        return False
    return any(op_name(node) not in LINEAR_OPS or len(graph.data_operands(node)) > 1 for node in own)


def site_of(graph: Graph, module: nn.Module, nodes: list[Node]) -> Site | None:
    """The site of a call; None where nobody reads its output, or it has several or reads several tensors."""
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
    name = f"nn.{cls.__name__}" if cls.__module__ == ACTIVATIONS_FILE else cls.__name__
    return (
        f"supple.convert(model, {name}())" if cls is nn.ReLU else f"supple.convert(model, {name}(), replace=({name},))"
    )
