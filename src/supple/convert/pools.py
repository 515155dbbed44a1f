"""Average-pools of the geometry of max-pools, as modules and as functions."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.activations import computes_one_of
from supple.layers import OneNode
from supple.random import becomes_graph


def mean_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """``F.avg_pool2d``, whose backward pass on a GPU is one division if windows tile the image."""
    size = tile_of(input, kernel_size, stride or kernel_size, padding) if divisor_override is None else None
    if size is not None:
        mean: Tensor = MeanOfTiles.apply(input, size)
        return mean
    return F.avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def tile_of(x: Any, kernel_size: Any, stride: Any, padding: Any) -> tuple[int, int] | None:
    """Height and width of the windows, if they tile images of a GPU in eager mode."""
    if not (isinstance(x, Tensor) and x.is_cuda and x.requires_grad and torch.is_grad_enabled() and x.dim() == 4):
        return None
    # A compiler writes a backward pass of its own, and a file of TorchScript holds torch's functions alone.
    if becomes_graph(x) or torch.jit.is_tracing():
        return None
    height, width = size = pair(kernel_size)
    tiles = pair(stride) == size and pair(padding) == (0, 0)
    return size if tiles and x.shape[-2] % height == 0 == x.shape[-1] % width else None


def pair(size: Any) -> tuple[int, int]:
    """Height and width; one number, alone or in a sequence, is both."""
    height, *width = size if isinstance(size, (tuple, list)) else (size,)
    return (height, *width) if width else (height, height)


class MeanOfTiles(torch.autograd.Function):
    """Nothing is kept for the backward pass: each pixel's gradient is its tile's, divided by the tile's size."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, size: tuple[int, int]) -> Tensor:
        return F.avg_pool2d(x, size)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, tuple[int, int]], output: Tensor) -> None:
        x, ctx.size = inputs
        ctx.channels_last = x.stride(1) == 1

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """To every pixel of a tile the same, laid out as the images are."""
        height, width = ctx.size
        sums = gradient.permute(0, 2, 3, 1) if ctx.channels_last else gradient
        rows = 1 if ctx.channels_last else 2
        tiles = sums.unsqueeze(rows + 1).unsqueeze(rows + 3)
        shape = list(tiles.shape)
        shape[rows + 1], shape[rows + 3] = height, width
        shares = (tiles.expand(shape) / (height * width)).contiguous()
        pixels = shares.flatten(rows, rows + 1).flatten(rows + 1, rows + 2)
        return pixels.permute(0, 3, 1, 2) if ctx.channels_last else pixels, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        """The mean is linear."""
        return F.avg_pool2d(tangent, ctx.size)


class AveragePool2d(OneNode, nn.AvgPool2d):
    """``nn.AvgPool2d`` in all but the time of its backward pass on a GPU, see ``mean_pool2d``.

    torch's own takes 2.6 to 3.2 times as long as that of a max-pool (bfloat16, channels last, H200).
    """

    def compute(self, x: Tensor) -> Tensor:
        geometry = self.kernel_size, self.stride, self.padding, self.ceil_mode
        return mean_pool2d(x, *geometry, self.count_include_pad, self.divisor_override)


AVERAGE_POOLS: dict[type[nn.Module], type[nn.Module]] = {
    getattr(nn, f"{kind}MaxPool{n}d"): getattr(nn, f"{kind}AvgPool{n}d") for kind in ("", "Adaptive") for n in (1, 2, 3)
}
AVERAGE_POOLS[nn.MaxPool2d] = AveragePool2d
MAX_POOLS = (*AVERAGE_POOLS, nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)
POOL_FUNCTIONS = {value for library in (F, torch) for name, value in vars(library).items() if "max_pool" in name}
NAMES = {name for library in (F, torch) for name in vars(library) if "max_pool" in name}
NAMES |= {pool.__name__ for pool in MAX_POOLS}

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
        if why_not({"return_indices": return_indices, "dilation": dilation}):
            return max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)
        # A max-pool ignores its padding, so the mean does too.
        return average_pool(input, kernel_size, stride or None, padding, ceil_mode, count_include_pad=False)

    def adaptive_average(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        return max_pool(input, output_size, True) if return_indices else average_pool(input, output_size)

    function = adaptive_average if name.startswith("adaptive") else average
    function.__name__ = function.__qualname__ = name  # so that a model that holds it can be pickled
    return function


average_pool1d = averaging("average_pool1d", F.max_pool1d, F.avg_pool1d)
average_pool2d = averaging("average_pool2d", F.max_pool2d, mean_pool2d)
average_pool3d = averaging("average_pool3d", F.max_pool3d, F.avg_pool3d)
adaptive_average_pool1d = averaging("adaptive_average_pool1d", F.adaptive_max_pool1d, F.adaptive_avg_pool1d)
adaptive_average_pool2d = averaging("adaptive_average_pool2d", F.adaptive_max_pool2d, F.adaptive_avg_pool2d)
adaptive_average_pool3d = averaging("adaptive_average_pool3d", F.adaptive_max_pool3d, F.adaptive_avg_pool3d)

AVERAGE_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    F.adaptive_max_pool1d: adaptive_average_pool1d,
    F.adaptive_max_pool2d: adaptive_average_pool2d,
    F.adaptive_max_pool3d: adaptive_average_pool3d,
}
for library in (F, torch):
    AVERAGE_FUNCTIONS[library.max_pool1d] = average_pool1d
    AVERAGE_FUNCTIONS[library.max_pool2d] = average_pool2d
    AVERAGE_FUNCTIONS[library.max_pool3d] = average_pool3d


def is_pool_function(value: Any) -> bool:
    return any(value is pool for pool in POOL_FUNCTIONS)  # not by "in": the value may not be hashable


def why_not_module(pool: Any) -> str:
    """Why no average-pool can stand for this max-pool module; empty if one can."""
    if computes_one_of(pool, tuple(AVERAGE_POOLS)) is None:
        return FRACTIONAL
    return why_not({"return_indices": pool.return_indices, "dilation": getattr(pool, "dilation", 1)})


def why_not_function(function: Any, options: dict[str, Any]) -> str:
    """Why no average-pool can stand for this max-pool function, called with these options; empty if one can."""
    if function not in AVERAGE_FUNCTIONS:
        return FRACTIONAL if "fractional" in function.__name__ else INDICES
    return why_not(options)


def why_not(options: dict[str, Any]) -> str:
    """Why no average-pool has these options; empty if one has."""
    if options.get("return_indices", False):
        return INDICES
    dilation = options.get("dilation", 1)
    sizes = dilation if isinstance(dilation, (tuple, list)) else (dilation,)
    return "" if all(size == 1 for size in sizes) else DILATED


def average_of(pool: Any) -> nn.Module:
    """Return the average-pool of the max-pool's geometry; a max-pool without a counterpart comes back."""
    if why_not_module(pool):
        return pool
    average = AVERAGE_POOLS[computes_one_of(pool, tuple(AVERAGE_POOLS)) or type(pool)]
    if hasattr(pool, "output_size"):
        return average(pool.output_size)
    return average(pool.kernel_size, pool.stride, pool.padding, pool.ceil_mode, count_include_pad=False)
