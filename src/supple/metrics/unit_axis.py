"""Unit axis: where the units lie in what a layer or a norm puts out, counted from the end.

Counted so, it is the same for a batch as for a single sample.
"""

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd


def unit_axis(layer: nn.Module) -> int:
    """Where the units lie in the layer's input and output, counted from the end: channels, or the last dimension."""
    return -1 - len(layer.kernel_size) if isinstance(layer, _ConvNd) else -1


def has_unit_entries(module: nn.Module) -> bool:
    """Whether the module is a norm with one entry for each unit."""
    if isinstance(module, (nn.LayerNorm, nn.RMSNorm)):
        return len(module.normalized_shape) == 1
    return isinstance(module, (_BatchNorm, nn.GroupNorm))


def norm_axis(norm: nn.Module, output: Tensor) -> int:
    """Where such a norm has its entries, counted from the end."""
    return -1 if isinstance(norm, (nn.LayerNorm, nn.RMSNorm)) else 1 - output.dim()


def columns_last(features: Tensor, axis: int) -> Tensor:
    """Features as a matrix: one row per sample and position, one column per unit."""
    return features.movedim(axis, -1).flatten(0, -2) if features.dim() > 1 else features[None]
