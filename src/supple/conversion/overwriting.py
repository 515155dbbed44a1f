"""Activations that write into their input: where somebody notices, and what becomes of them."""

from collections.abc import Iterator
from typing import Any

from torch import fx, nn

VIEWS = {
    "chunk",
    "detach",
    "expand",
    "flatten",
    "getitem",
    "movedim",
    "narrow",
    "permute",
    "reshape",
    "select",
    "split",
}
VIEWS |= {"squeeze", "swapaxes", "t", "transpose", "unbind", "unflatten", "unsqueeze", "view"}
CANNOT = "the forward around it reads the input that it overwrites, and the new activation has no inplace to do so"
INTO_ARGUMENT = "it overwrote its caller's tensor; its successor does so only if the activation given has inplace=True"


def input_of(node: fx.Node) -> Any:
    """The node's first argument."""
    return node.args[0] if node.args else next(iter(node.kwargs.values()), None)


def is_noticed(node: fx.Node) -> bool:
    """Whether this forward notices that the call overwrote its input: it reads that later, or not the output."""
    return not node.users or any(node < user for x in aliases(input_of(node)) for user in x.users)


def aliases(x: Any) -> Iterator[fx.Node]:
    """The node and those it is a view of."""
    while isinstance(x, fx.Node):
        yield x
        x = input_of(x) if getattr(x.target, "__name__", x.target) in VIEWS else None


def is_on_argument(node: fx.Node) -> bool:
    """Whether the input is an argument of the forward, which its caller may read later."""
    x = input_of(node)
    return isinstance(x, fx.Node) and x.op == "placeholder"


def can_overwrite(activation: nn.Module) -> bool:
    """Whether the activation can be told to write into its input."""
    return hasattr(activation, "inplace")


def overwrite_(activation: nn.Module) -> None:
    """Tell the activation to write into its input."""
    activation.inplace = True  # type: ignore[assignment]
