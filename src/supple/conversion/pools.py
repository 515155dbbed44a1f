"""Average-pools of the geometry of max-pools, as modules and as functions."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn

from supple.conversion.forms import class_of_module, form_name

AVERAGE_POOLS: dict[type[nn.Module], type[nn.Module]] = {
    nn.MaxPool1d: nn.AvgPool1d,
    nn.MaxPool2d: nn.AvgPool2d,
    nn.MaxPool3d: nn.AvgPool3d,
    nn.AdaptiveMaxPool1d: nn.AdaptiveAvgPool1d,
    nn.AdaptiveMaxPool2d: nn.AdaptiveAvgPool2d,
    nn.AdaptiveMaxPool3d: nn.AdaptiveAvgPool3d,
}
MAX_POOLS = (*AVERAGE_POOLS, nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)

AVERAGE_FUNCTIONS: dict[Any, Any] = {
    F.max_pool1d: F.avg_pool1d,
    F.max_pool2d: F.avg_pool2d,
    F.max_pool3d: F.avg_pool3d,
    torch.max_pool1d: F.avg_pool1d,
    torch.max_pool2d: F.avg_pool2d,
    torch.max_pool3d: F.avg_pool3d,
    F.adaptive_max_pool1d: F.adaptive_avg_pool1d,
    F.adaptive_max_pool2d: F.adaptive_avg_pool2d,
    F.adaptive_max_pool3d: F.adaptive_avg_pool3d,
}
FUNCTIONS_WITH_INDICES = (
    F.max_pool1d_with_indices,
    F.max_pool2d_with_indices,
    F.max_pool3d_with_indices,
    torch.max_pool1d_with_indices,
    torch.adaptive_max_pool1d,
    F.adaptive_max_pool1d_with_indices,
    F.adaptive_max_pool2d_with_indices,
    F.adaptive_max_pool3d_with_indices,
)
FRACTIONAL_FUNCTIONS = (
    F.fractional_max_pool2d,
    F.fractional_max_pool3d,
    F.fractional_max_pool2d_with_indices,
    F.fractional_max_pool3d_with_indices,
)
POOL_FUNCTIONS = (*AVERAGE_FUNCTIONS, *FUNCTIONS_WITH_INDICES, *FRACTIONAL_FUNCTIONS)
NAMES = {pool.__name__ for pool in (*POOL_FUNCTIONS, *MAX_POOLS)}

DILATED = "torch has no average-pool with dilation"
INDICES = "it returns the indices of the maxima"
FRACTIONAL = "torch has no fractional average-pool"


def is_max_pool(module: nn.Module) -> bool:
    """Whether the module is one of torch's max-pools."""
    return class_of_module(module, MAX_POOLS) is not None


def is_max_pool_call(node: fx.Node) -> bool:
    """Whether the node calls a max-pool function."""
    return node.op == "call_function" and node.target in POOL_FUNCTIONS


def obstacle(pool: Any) -> str | None:
    """Why no average-pool can stand for this max-pool module, or None."""
    if class_of_module(pool, tuple(AVERAGE_POOLS)) is None:
        return FRACTIONAL
    if pool.return_indices:
        return INDICES
    return None if undilated(getattr(pool, "dilation", 1)) else DILATED


def average_pool(pool: Any) -> nn.Module:
    """The average-pool of the max-pool's geometry. A max-pool ignores its padding, so the mean does too."""
    average = AVERAGE_POOLS[class_of_module(pool, tuple(AVERAGE_POOLS)) or type(pool)]
    if hasattr(pool, "output_size"):
        return average(pool.output_size)
    return average(pool.kernel_size, pool.stride, pool.padding, pool.ceil_mode, count_include_pad=False)


def call_obstacle(node: fx.Node) -> str | None:
    """Why no average-pool can stand for this call of a max-pool function, or None."""
    if node.target in FRACTIONAL_FUNCTIONS:
        return FRACTIONAL
    arguments = call_arguments(node)
    if node.target in FUNCTIONS_WITH_INDICES or arguments.get("return_indices", False):
        return INDICES
    return None if undilated(arguments.get("dilation", 1)) else DILATED


def make_average_(node: fx.Node) -> None:
    """Turn the call of a max-pool function into that of its average-pool."""
    arguments = call_arguments(node)
    node.target = AVERAGE_FUNCTIONS[node.target]
    if "output_size" in arguments:
        node.args, node.kwargs = (arguments["input"], arguments["output_size"]), {}
        return
    node.args = (arguments["input"], arguments["kernel_size"], arguments.get("stride") or None)
    node.kwargs = {
        "padding": arguments.get("padding", 0),
        "ceil_mode": arguments.get("ceil_mode", False),
        "count_include_pad": False,
    }


def call_arguments(node: fx.Node) -> dict[str, Any]:
    """The node's arguments by name."""
    names: tuple[str, ...] = ("input", "kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
    if "adaptive" in form_name(node.target):
        names = ("input", "output_size", "return_indices")
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def undilated(dilation: Any) -> bool:
    """Whether every dilation is the constant 1."""
    return all(size == 1 for size in (dilation if isinstance(dilation, (tuple, list)) else (dilation,)))
