"""Average-pools of the geometry of max-pools, as modules and as functions."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.activations import computes_one_of

AVERAGE_POOLS: dict[type[nn.Module], type[nn.Module]] = {
    nn.MaxPool1d: nn.AvgPool1d,
    nn.MaxPool2d: nn.AvgPool2d,
    nn.MaxPool3d: nn.AvgPool3d,
    nn.AdaptiveMaxPool1d: nn.AdaptiveAvgPool1d,
    nn.AdaptiveMaxPool2d: nn.AdaptiveAvgPool2d,
    nn.AdaptiveMaxPool3d: nn.AdaptiveAvgPool3d,
}
MAX_POOLS = (*AVERAGE_POOLS, nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)

DILATED = "torch has no average-pool with dilation"
INDICES = "it returns the indices of the maxima"
FRACTIONAL = "torch has no fractional average-pool"


def averaging(name: str, max_pool: Callable[..., Any], average_pool: Callable[..., Tensor]) -> Callable[..., Any]:
    """Return a function with the max-pool's arguments that averages; with indices or dilation it is the max-pool."""

    def average(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        if return_indices or not is_undilated(dilation):
            return max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)
        # A max-pool ignores its padding, so the mean does too.
        return average_pool(input, kernel_size, stride or None, padding, ceil_mode, count_include_pad=False)

    def adaptive_average(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        return max_pool(input, output_size, True) if return_indices else average_pool(input, output_size)

    function = adaptive_average if name.startswith("adaptive") else average
    function.__name__ = function.__qualname__ = name  # so that a model that holds it can be pickled
    return function


average_pool1d = averaging("average_pool1d", F.max_pool1d, F.avg_pool1d)
average_pool2d = averaging("average_pool2d", F.max_pool2d, F.avg_pool2d)
average_pool3d = averaging("average_pool3d", F.max_pool3d, F.avg_pool3d)
adaptive_average_pool1d = averaging("adaptive_average_pool1d", F.adaptive_max_pool1d, F.adaptive_avg_pool1d)
adaptive_average_pool2d = averaging("adaptive_average_pool2d", F.adaptive_max_pool2d, F.adaptive_avg_pool2d)
adaptive_average_pool3d = averaging("adaptive_average_pool3d", F.adaptive_max_pool3d, F.adaptive_avg_pool3d)

AVERAGE_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    F.max_pool1d: average_pool1d,
    F.max_pool2d: average_pool2d,
    F.max_pool3d: average_pool3d,
    torch.max_pool1d: average_pool1d,
    torch.max_pool2d: average_pool2d,
    torch.max_pool3d: average_pool3d,
    F.adaptive_max_pool1d: adaptive_average_pool1d,
    F.adaptive_max_pool2d: adaptive_average_pool2d,
    F.adaptive_max_pool3d: adaptive_average_pool3d,
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
NAMES = frozenset(pool.__name__ for pool in (*POOL_FUNCTIONS, *MAX_POOLS))


def is_pool_function(value: Any) -> bool:
    """Whether it is one of torch's max-pool functions."""
    return any(value is pool for pool in POOL_FUNCTIONS)


def is_max_pool(module: nn.Module) -> bool:
    """Whether the module is one of torch's max-pools."""
    return computes_one_of(module, MAX_POOLS) is not None


def why_not_module(pool: Any) -> str | None:
    """Why no average-pool can stand for this max-pool module, or None."""
    if computes_one_of(pool, tuple(AVERAGE_POOLS)) is None:
        return FRACTIONAL
    return why_not({"return_indices": pool.return_indices, "dilation": getattr(pool, "dilation", 1)})


def why_not_function(function: Any, options: dict[str, Any]) -> str | None:
    """Why no average-pool can stand for this max-pool function, called with these options, or None."""
    if any(function is fractional for fractional in FRACTIONAL_FUNCTIONS):
        return FRACTIONAL
    return INDICES if any(function is other for other in FUNCTIONS_WITH_INDICES) else why_not(options)


def why_not(options: dict[str, Any]) -> str | None:
    """Why no average-pool has these options, or None."""
    if options.get("return_indices", False):
        return INDICES
    return None if is_undilated(options.get("dilation", 1)) else DILATED


def is_undilated(dilation: Any) -> bool:
    """Whether every dilation is 1."""
    return all(size == 1 for size in (dilation if isinstance(dilation, (tuple, list)) else (dilation,)))


def average_pool(pool: Any) -> nn.Module:
    """Return the average-pool of the max-pool's geometry."""
    average = AVERAGE_POOLS[computes_one_of(pool, tuple(AVERAGE_POOLS)) or type(pool)]
    if hasattr(pool, "output_size"):
        return average(pool.output_size)
    return average(pool.kernel_size, pool.stride, pool.padding, pool.ceil_mode, count_include_pad=False)


def average_of(pool: nn.Module) -> nn.Module:
    """Return the average-pool for a max-pool made in a forward; one without a counterpart comes back."""
    return pool if why_not_module(pool) else average_pool(pool)
