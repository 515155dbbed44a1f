"""ReLUs written as a clamp or a maximum: recognised, so that a conversion can say that it leaves them."""

from typing import Any

from torch import fx, nn

WAY_OUT = "write it as a ReLU to have it swapped"
# The names of each function's arguments after the input.
ARGUMENTS = {
    "clamp": ("min", "max"),
    "clip": ("min", "max"),
    "clamp_min": ("min",),
    "threshold": ("threshold", "value"),
    "maximum": ("other",),
}
ZEROS = {"zeros", "zeros_like", "new_zeros"}


def class_of_clamp(node: fx.Node) -> type[nn.Module] | None:
    """The activation class that the node computes as a clamp, a threshold or a maximum, if any."""
    names = ARGUMENTS.get(name_of_call(node).strip("_"))  # F.threshold is traced as _threshold
    if names is None:
        return None
    given = {**dict(zip(names, node.args[1:], strict=False)), **node.kwargs}
    if "maximum" in name_of_call(node):
        return nn.ReLU if any(is_zeros(value) for value in (*node.args, *node.kwargs.values())) else None
    if any(given.get(name) != 0 for name in names if name != "max"):
        return None
    ceiling = given.get("max")
    return nn.ReLU if ceiling is None else nn.ReLU6 if ceiling == 6 else None


def is_zeros(value: Any) -> bool:
    """Whether the value is a tensor of zeros made in the forward."""
    return isinstance(value, fx.Node) and name_of_call(value) in ZEROS


def name_of_call(node: fx.Node) -> str:
    """The name of the function or method that the node calls; empty if it calls none."""
    if node.op not in ("call_function", "call_method"):
        return ""
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
