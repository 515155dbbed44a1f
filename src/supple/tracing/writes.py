"""In-place writes of an exported graph, undone where that is plain: later readers read the result of the write."""

from torch._ops import OpOverload
from torch.fx import Graph, Node


def rebind_writes_(graph: Graph) -> bool:
    """Let whoever reads an overwritten value later read what was written; False, and nothing done, if it has views.

    Functionalization by torch takes longer than the export itself: 9 of 14 seconds for timm's densenet121.
    """
    order = {node: i for i, node in enumerate(graph.nodes)}
    writes = [node for node in order if writes_in_place(node)]
    if any(has_views(target, before=order[node], order=order) for node in writes for target in written(node)):
        return False
    for node in writes:
        for target in written(node):
            for reader in [user for user in target.users if order[user] > order[node]]:
                reader.replace_input_with(target, node)
    return True


def writes_in_place(node: Node) -> bool:
    """Whether the operation changes one of its operands."""
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable


def written(node: Node) -> list[Node]:
    """The operands the operation changes."""
    return aliased(node, is_write=True)


def has_views(node: Node, *, before: int, order: dict[Node, int]) -> bool:
    """Whether the node's memory goes by another name, too, by that point of the graph."""
    views = [user for user in node.users if order[user] < before and shares_memory(user, node)]
    return bool(views) or any(shares_memory(node, operand) for operand in node.all_input_nodes)


def shares_memory(node: Node, operand: Node) -> bool:
    """Whether the node's value is a view of the operand, or in evaluation mode the operand itself (dropout)."""
    return operand in aliased(node, is_write=False) or "dropout" in str(node.target)


def aliased(node: Node, *, is_write: bool) -> list[Node]:
    """The operands that the operation's output shares memory with, read or written."""
    if not isinstance(node.target, OpOverload):
        return node.all_input_nodes if node.op == "call_function" and not is_write else []
    arguments = zip(node.target._schema.arguments, node.args, strict=False)
    marked = [value for known, value in arguments if known.alias_info and known.alias_info.is_write == is_write]
    return [value for value in marked if isinstance(value, Node)]
