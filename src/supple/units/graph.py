"""Graph: the operations of a model's forward in order, each with the modules and the parameters it belongs to."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from supple.units import Layer, is_layer, out_dim

# Operations that multiply by a weight along the units; of the transposed ones the output is known, no more.
LAYER_OPS = {"linear", "conv1d", "conv2d", "conv3d", "convolution"}
TRANSPOSED_OPS = {"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"}
# Products of any two tensors; of a layer if the second one is its weight, as in GPT-2's Conv1D.
PRODUCT_OPS = {"addmm", "mm", "matmul"}
# Operations that read the shape of a tensor, not its values: of the last operand, or of any.
SHAPE_OF_LAST = {"view_as", "reshape_as", "expand_as"}
SHAPE_ONLY = {
    *("zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like"),
    *("new_zeros", "new_ones", "new_full", "new_empty"),
}


class Graph:
    """An exported model. ``data`` holds the nodes whose value depends on the input of the model."""

    def __init__(self, program: ExportedProgram, model: nn.Module, names: dict[nn.Module, str]) -> None:
        signature = program.graph_signature
        placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
        self.model, self.names = model, names
        self.nodes = list(program.graph.nodes)
        self.data = dependents(self.nodes, {placeholders[n] for n in signature.user_inputs if n in placeholders})
        targets = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        self.holders = {placeholders[n]: model.get_submodule(at.rpartition(".")[0]) for n, at in targets.items()}
        self.tensors = {
            placeholders[n]: getattr(self.holders[placeholders[n]], at.rpartition(".")[2]) for n, at in targets.items()
        }
        # By identity, for tied weights have a placeholder each.
        self.num_uses = Counter(id(tensor) for node, tensor in self.tensors.items() for _ in node.users)

    def modules_of(self, node: Node) -> Iterator[tuple[str, nn.Module]]:
        """The calls of modules the node happens in, the outermost first: a key for each call, and the module."""
        for key, (path, _) in node.meta.get("nn_module_stack", {}).items():
            yield key, self.model.get_submodule(path.partition("@")[0])

    def innermost_module(self, node: Node) -> nn.Module:
        """The module in whose own forward the node happens."""
        return [self.model, *(module for _, module in self.modules_of(node))][-1]

    def where(self, node: Node) -> str:
        """The operation in words: what, and in which module."""
        module = self.innermost_module(node)
        named = self.names.get(module)
        return f"{op_name(node)} in {self.module_name(module) if named else f'the forward of {type(module).__name__}'}"

    def module_name(self, module: nn.Module) -> str:
        return f"{self.names[module]} ({type(module).__name__})"

    def layer_of(self, node: Node) -> Layer | None:
        """The layer whose own weight the operation multiplies by."""
        weight, dim = self.tensors.get(factors(node)[1]), int(op_name(node) in PRODUCT_OPS)
        candidates = [*(module for _, module in self.modules_of(node)), *self.held_by(node)]
        return next((m for m in candidates if is_layer(m) and m.weight is weight and out_dim(m) == dim), None)

    def is_layer_op(self, node: Node) -> bool:
        """Whether the operation multiplies by a weight along the units."""
        name = op_name(node)
        return name in LAYER_OPS or (name in PRODUCT_OPS and self.layer_of(node) is not None)

    def norm_of(self, node: Node) -> nn.Module | None:
        """The module a normalisation belongs to, if it keeps scale and statistics where torch's norms keep them."""
        for module in (*self.held_by(node), self.innermost_module(node)):
            if all(getattr(module, n, None) is self.tensor_named(node, n) for n in ("weight", "running_mean")):
                return module
        return None

    def tensor_named(self, node: Node, name: str) -> Tensor | None:
        """The parameter or buffer that is this argument of the operation; None if it is something else, or absent."""
        value = argument(node, name)
        return self.tensors.get(value) if isinstance(value, Node) else None

    def held_by(self, node: Node) -> list[nn.Module]:
        """The modules that hold the parameters and buffers the operation reads."""
        return [self.holders[operand] for operand in node.all_input_nodes if operand in self.holders]

    def data_operands(self, node: Node) -> list[Node]:
        """The operands that depend on the model's input."""
        return [operand for operand in operands(node) if operand in self.data]

    def unreached(self) -> Iterator[tuple[str, Layer]]:
        """Names and layers of which neither a call nor a parameter is in the graph."""
        called = {module for node in self.nodes for _, module in self.modules_of(node)}
        for module, name in self.names.items():
            if is_layer(module) and module not in called and not any(self.num_uses[id(p)] for p in module.parameters()):
                yield name, module

    def sharing(self, module: nn.Module) -> str:
        """In words, that the module's weight serves more than one place; empty if it does not."""
        num_uses = self.num_uses[id(module.weight)]
        return f"the weight of {self.module_name(module)} is used {num_uses} times in a forward" if num_uses > 1 else ""


def dependents(nodes: list[Node], inputs: set[Node]) -> set[Node]:
    """The inputs and all that is computed from them; nodes come in order."""
    found = set(inputs)
    for node in nodes:
        if any(operand in found for operand in operands(node)):
            found.add(node)
    return found


def operands(node: Node) -> list[Node]:
    """The nodes whose values the operation reads."""
    if op_name(node) in SHAPE_ONLY:
        return []
    return node.all_input_nodes[:1] if op_name(node) in SHAPE_OF_LAST else node.all_input_nodes


def op_name(node: Node) -> str:
    """The operation's name without its overload, also of one that writes in place: conv2d, add, getitem."""
    target = node.target
    if not isinstance(target, OpOverload):
        return getattr(target, "__name__", str(target))
    name = target.overloadpacket.__name__
    return name.rstrip("_") if target._schema.is_mutable else name


def factors(node: Node) -> tuple[Any, Any]:
    """What the operation of a layer multiplies: the layer's input and its weight."""
    first = 1 if op_name(node) == "addmm" else 0
    return node.args[first], node.args[first + 1]


def argument(node: Node, name: str) -> object:
    """What the operation was given under this name; None if nothing."""
    names = [known.name for known in node.target._schema.arguments]  # type: ignore[union-attr]
    given = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
    return given.get(name)


def shape_of(node: Node) -> torch.Size:
    return node.meta["val"].shape


def is_unread(node: Node) -> bool:
    """Whether no node reads the node's value: an assertion, an output left aside."""
    return not node.users and node.op != "output"
