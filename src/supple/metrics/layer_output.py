"""LayerOutput: what a layer put out, and which outputs a later value was computed from, as far as can be told."""

import itertools
from collections.abc import Callable, Mapping
from typing import NamedTuple

from torch import Tensor
from torch.autograd.graph import Node

# Between a layer and the activation it feeds, norm, sum, reshape and cast are a node each; a skip connection beside
# them is walked as far. To find a layer that is near takes 3 us on one CPU core, to give up after 64 nodes 65 us.
MAX_NODES = 64


class LayerOutput(NamedTuple):
    """Where the units lie, counted from the end, how many there are, and how the output is known again."""

    axis: int
    width: int
    node: Node | None  # of autograd; None where no gradient flows
    tensor: Callable[[], Tensor | None]  # the output, or what a norm made of it, as long as the forward has it
    fed_layer: bool = False  # whether that went into another layer


def outputs_behind(z: Tensor, outputs: Mapping[str, LayerOutput]) -> dict[str, LayerOutput]:
    """The outputs that z was computed from with none of the others between; without gradient, all that have none."""
    nodes = {output.node for output in outputs.values()}
    behind, met = [z.grad_fn], set()
    for node in itertools.islice(behind, MAX_NODES):  # breadth first: the list grows while it is walked
        if node in nodes:
            met.add(node)
        elif node is not None:
            behind += [source for source, _ in node.next_functions if source is not None and source not in behind]
    return {name: output for name, output in outputs.items() if output.node in met}


def outputs_likely_behind(z: Tensor, outputs: Mapping[str, LayerOutput]) -> dict[str, LayerOutput]:
    """The output that z itself is; else, of those that autograd names or cannot see, the ones that fed no layer."""
    if itself := {name: output for name, output in outputs.items() if output.tensor() is z}:
        return itself
    seen = outputs_behind(z, outputs)
    maybe = {name: output for name, output in outputs.items() if name in seen or output.node is None} or dict(outputs)
    return {name: output for name, output in maybe.items() if not output.fed_layer} or maybe
