"""Interval-wise dropout and its two-interval relatives as functions (Algorithms 1 and 2, Property 1).

With ``training=True`` they draw a mask per element; with ``training=False`` they give its exact mean. ``generator``
replaces the device's own random stream; ``inplace`` writes into x, as in ``torch.nn.functional.relu``.
"""

import itertools
import math
import sys
from collections.abc import Sequence

import torch
from torch import Tensor, fx

from supple.kernels.base import Intervals
from supple.kernels.operator import interval_dropout as drop_intervals

LARGEST = sys.float_info.max


def aid(
    x: Tensor, p: float = 0.9, training: bool = True, *, generator: torch.Generator | None = None, inplace: bool = False
) -> Tensor:
    """AID_p (Algorithm 2): ReLU with probability p, else negative ReLU, per element; in evaluation r_p(x)."""
    p = probability(p, "AID.p is the probability of the ReLU branch")
    require_floating_point(x, "AID")
    if training:
        return drop_intervals(x, Intervals((0.0,), (p, 1.0 - p)), generator=generator, inplace=inplace)
    return write(modified_leaky_relu(x, p), x, inplace=inplace)


def interval_dropout(
    x: Tensor,
    edges: Sequence[float],
    drop: Sequence[float],
    training: bool = True,
    *,
    generator: torch.Generator | None = None,
    inplace: bool = False,
) -> Tensor:
    """General AID (Algorithm 1): an element of the j-th interval is dropped with rate drop[j]; in evaluation scaled."""
    edges, drop = sorted_edges(edges), drop_rates(drop, num_edges=len(edges))
    require_floating_point(x, "IntervalDropout")
    if training:
        return drop_intervals(x, Intervals(edges, drop), generator=generator, inplace=inplace)
    return write(interval_mean(x, edges, drop), x, inplace=inplace)


def drop_relu(
    x: Tensor,
    relu_prob: float = 0.95,
    training: bool = True,
    *,
    generator: torch.Generator | None = None,
    inplace: bool = False,
) -> Tensor:
    """DropReLU (Liang et al. 2021), AID_{0,p}: ReLU with probability ``relu_prob``, else the identity, per element."""
    relu_prob = probability(relu_prob, "DropReLU.relu_prob is the probability of the ReLU branch")
    require_floating_point(x, "DropReLU")
    if training:
        return drop_intervals(x, Intervals((0.0,), (relu_prob, 0.0)), generator=generator, inplace=inplace)
    return write(two_slopes(x, 1.0 - relu_prob, 1.0), x, inplace=inplace)


def relu_dropout(
    x: Tensor,
    drop_positive: float,
    training: bool = True,
    *,
    generator: torch.Generator | None = None,
    inplace: bool = False,
) -> Tensor:
    """Dropout after ReLU, AID_{p,1} / (1-p): negatives go, positives are dropped or scaled up; in evaluation ReLU."""
    drop_positive = probability(drop_positive, "ReLUDropout.drop_positive is the drop rate of positive values")
    require_floating_point(x, "ReLUDropout")
    if not training:
        return torch.relu_(x) if inplace else torch.relu(x)
    scale = 1.0 / (1.0 - drop_positive) if drop_positive < 1.0 else 1.0
    return drop_intervals(x, Intervals((0.0,), (1.0, drop_positive), scale), generator=generator, inplace=inplace)


# torch.fx records a call of these as it does one of torch's functions, instead of looking into them.
fx.wrap("aid")
fx.wrap("interval_dropout")
fx.wrap("drop_relu")
fx.wrap("relu_dropout")


def modified_leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """The paper's r_alpha: x/2 + (alpha - 1/2)|x|, slope alpha for positive values and 1 - alpha for negative ones."""
    return two_slopes(x, 1.0 - alpha, alpha)


def two_slopes(x: Tensor, negative: float, positive: float) -> Tensor:
    """``positive * x`` above zero, else ``negative * x``: with slopes 0 and 1 ReLU, gradients and infinity too."""
    return torch.where(x > 0, scaled(x, positive), scaled(x, negative))


def interval_mean(x: Tensor, edges: tuple[float, ...], drop: tuple[float, ...]) -> Tensor:
    """The mean of Algorithm 1's output: each element times the keep rate of its interval."""
    # One comparison an edge instead of a table look-up: it exports to ONNX, and edges are few. The scalar product is
    # rounded once, where a table in bfloat16 would round the rate as well.
    mean = scaled(x, 1.0 - drop[0])
    for edge, rate in zip(edges, drop[1:], strict=True):
        is_right = x >= edge if edge else x > edge  # at 0 both give 0, and the gradient is that of the left, as AID's
        mean = torch.where(is_right, scaled(x, 1.0 - rate), mean)
    return mean


def scaled(x: Tensor, slope: float) -> Tensor:
    """``slope * x``; a slope of 0 gives 0 at infinity too, and NaN stays NaN."""
    # where, not clamp: clamp(x, 0, 0) has gradient 1 at x == 0, and keeps x, which inplace overwrites.
    return slope * x if slope != 0.0 else torch.where(x.isnan(), x, 0.0)


def write(value: Tensor, x: Tensor, *, inplace: bool) -> Tensor:
    """The value itself, or x overwritten by it."""
    return x.copy_(value) if inplace else value


def probability(value: float, what: str) -> float:
    """The value as a float in [0, 1], or an error that says what it stands for."""
    if not is_number(value):
        raise TypeError(f"{what}, a number in [0, 1]; got {value!r}, a {type(value).__name__}.")
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{what}, in [0, 1]; got {value}.")
    return float(value)


def is_number(value: object) -> bool:
    """Whether a float can stand for it, as for a scalar of numpy or torch; for a string, a bool or 10**400 none can."""
    if isinstance(value, float):
        return True
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) <= LARGEST
    other = isinstance(value, (str, type)) or any(
        kind in str(getattr(value, "dtype", "")) for kind in ("bool", "complex")
    )
    return hasattr(value, "__float__") and getattr(value, "ndim", 0) == 0 and not other


def sorted_edges(edges: Sequence[float]) -> tuple[float, ...]:
    """The edges as floats, finite and strictly increasing, or an error."""
    require_numbers(edges, "IntervalDropout.edges")
    floats = tuple(float(edge) for edge in edges)
    if not all(math.isfinite(edge) for edge in floats):
        raise ValueError(f"IntervalDropout.edges must be finite numbers (the outer intervals are open); got {floats}.")
    if any(left >= right for left, right in itertools.pairwise(floats)):
        raise ValueError(f"IntervalDropout.edges must be sorted, each larger than the one before; got {floats}.")
    return floats


def drop_rates(drop: Sequence[float], *, num_edges: int) -> tuple[float, ...]:
    """The drop rates as floats in [0, 1], one more than there are edges, or an error."""
    require_numbers(drop, "IntervalDropout.drop")
    if len(drop) != num_edges + 1:
        raise ValueError(
            f"IntervalDropout.drop needs one rate per interval: {num_edges} edges make {num_edges + 1} intervals; "
            f"got {len(drop)} rates, {tuple(drop)}."
        )
    return tuple(probability(rate, f"IntervalDropout.drop[{j}] is a drop rate") for j, rate in enumerate(drop))


def require_numbers(values: object, what: str) -> None:
    """Refuse what is no sequence of numbers."""
    is_array = getattr(values, "ndim", 0) == 1
    if not (isinstance(values, (tuple, list)) or is_array) or not all(is_number(value) for value in values):  # type: ignore[attr-defined]
        raise TypeError(f"{what} must be a sequence of numbers, such as (0.0,); got {values!r}.")


def require_floating_point(x: Tensor, who: str) -> None:
    """Refuse integers: a scaled mean would be truncated to zero, and the negative of a uint8 wraps around."""
    if not isinstance(x, fx.Proxy) and not x.is_floating_point():
        raise TypeError(f"{who} needs a floating-point tensor; got {x.dtype}. Convert with x.float().")
