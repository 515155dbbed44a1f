"""What goes out of an activation site: the layers that read its units, with the columns each unit owns there."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import Node

from supple.tracing.graph import LAYER_OPS, Graph, is_unread, kind, op_name, operands
from supple.tracing.moves import SUMS, Owner, moved, tensor
from supple.tracing.owners import Blocked, collapsed, is_foreign
from supple.tracing.sites import Site
from supple.units import Consumer, Layer

NUM_OBSTACLES_SHOWN = 3  # in a densely connected network one site may have dozens


@dataclass(frozen=True, eq=False)
class Outgoing:
    """Who reads the units of a site; ``unclear`` says where they could not be followed."""

    consumers: tuple[Consumer, ...]
    summed: bool
    unclear: str


class Walk:
    """Follows the units of one site from operation to operation, up to the layers that read them."""

    def __init__(self, graph: Graph, site: Site, sites: dict[Node, Site], *, num_units: int) -> None:
        self.graph, self.site, self.sites, self.num_units = graph, site, sites, num_units
        self.owners: dict[Node, Owner] = {}
        self.consumers: list[Consumer] = []
        self.obstacles: list[str] = []
        self.summed = False

    def run(self, owner: Tensor) -> Outgoing:
        """Follow the units, whose owners at the site are given."""
        self.owners[self.site.output] = owner
        for node in self.graph.nodes[self.graph.nodes.index(self.site.output) + 1 :]:
            if not is_unread(node) and any(operand in self.owners for operand in operands(node)):
                self.visit(node)
        return Outgoing(tuple(self.consumers), self.summed, listed(list(dict.fromkeys(self.obstacles))))

    def visit(self, node: Node) -> None:
        """Go through one operation, or stop at it."""
        if node.op == "output":
            self.obstacles.append("they reach the output of the model without a layer between")
        elif node in self.sites:
            self.obstacles.append(
                f"{self.graph.module_name(self.sites[node].module)} comes after them, no layer between"
            )
        elif op_name(node) in LAYER_OPS:
            self.enter_layer(node)
        elif op_name(node) in SUMS and any(o not in self.owners for o in self.graph.data_operands(node)):
            self.summed = True
        else:
            self.pass_through(node)

    def pass_through(self, node: Node) -> None:
        """Follow the units to the output of an operation that is no layer."""
        try:
            owner = moved(node, self.owners, self.graph.data)
            if not (isinstance(owner, Tensor) and is_foreign(owner)):
                self.owners[node] = owner
        except Blocked as reason:
            self.obstacles.append(f"{self.graph.where(node)}: {reason}")

    def enter_layer(self, node: Node) -> None:
        """Take down a layer that reads the units."""
        layer, value = self.graph.layer_of(node), node.all_input_nodes[0]
        if layer is None or value is not node.args[0] or value not in self.owners:
            self.obstacles.append(f"{self.graph.where(node)} does not multiply them by the weight of a layer")
            return
        try:
            columns_US = columns_of_units(layer, tensor(self.owners[value]), num_units=self.num_units)
            self.consumers.append(Consumer(layer, columns_US.to(layer.weight.device)))
        except Blocked as reason:
            self.obstacles.append(f"{self.graph.module_name(layer)}: {reason}")
        if sharing := self.graph.sharing(layer):
            self.obstacles.append(sharing)


def listed(obstacles: list[str]) -> str:
    """The first obstacles, and how many more there are."""
    more = len(obstacles) - NUM_OBSTACLES_SHOWN
    return "; ".join(obstacles[:NUM_OBSTACLES_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def columns_of_units(layer: Layer, owner: Tensor, *, num_units: int) -> Tensor:
    """The input columns of the layer's weight that each unit owns, given the owners of its input."""
    if getattr(layer, "groups", 1) != 1:
        raise Blocked(f"a {kind(layer)} in groups has no input columns of its own for a unit")
    dim = owner.dim() - (layer.weight.dim() - 1)
    column_owner = collapsed(owner, [d for d in range(owner.dim()) if d != dim]).flatten()
    counts = torch.bincount(column_owner[column_owner >= 0], minlength=num_units)
    if not bool((counts == counts[0]).all()):
        raise Blocked("it reads some of the units more than others")
    order = column_owner.argsort(stable=True)
    return order[-int(counts.sum()) :].view(num_units, -1)
