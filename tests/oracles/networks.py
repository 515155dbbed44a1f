"""Networks as lists of parts, and their forward in plain loops: what every activation is given and what it gives.

The names are those of nested ``nn.Sequential``; a residual block holds its body under "body".
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from oracles import activations
from oracles.rounding import Rounded, joined, stacked


@dataclass(frozen=True)
class Linear:
    num_inputs: int
    num_outputs: int
    bias: bool = True
    tied_to: str | None = None  # the name of an earlier layer whose weight it shares


@dataclass(frozen=True)
class Conv:
    num_inputs: int
    num_outputs: int
    kernel: int
    stride: int = 1
    padding: int = 0
    groups: int = 1
    bias: bool = True
    transposed: bool = False


@dataclass(frozen=True)
class Norm:
    kind: str  # batch, layer, group
    width: int
    groups: int = 1
    affine: bool = True


@dataclass(frozen=True)
class Activation:
    kind: str
    values: tuple = ()  # its probabilities, slopes or intervals

    @property
    def expansion(self) -> int:
        return 2 if self.kind in ("crelu", "fourier") else 1


@dataclass(frozen=True)
class AvgPool:
    size: int = 2


@dataclass(frozen=True)
class MaxPool:
    size: int = 2


@dataclass(frozen=True)
class Flatten:
    pass


@dataclass(frozen=True)
class Residual:
    """x plus what the body makes of it."""

    body: tuple


Parts = tuple
EPS_OF_NORMS = 1e-5  # torch's default


def named_parts(parts: Parts, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Every part that is no block, with its name, in order of execution."""
    for index, part in enumerate(parts):
        if isinstance(part, Residual):
            yield from named_parts(part.body, f"{prefix}{index}.body.")
        else:
            yield f"{prefix}{index}", part


@dataclass
class Site:
    """An activation of one forward; units lie along ``axis``."""

    name: str
    z: Rounded
    h: Rounded
    axis: int


@dataclass
class Forward:
    """What one forward shows."""

    sites: list[Site] = field(default_factory=list)
    features: Rounded | None = None  # the input of the last layer with weights
    features_axis: int = -1
    output: Rounded | None = None


def forward(parts: Parts, tensors: Mapping[str, Rounded], x: Rounded, *, training: bool = False) -> Forward:
    """Run the parts with these parameters and buffers; in training mode batch norms use the batch's own statistics."""
    seen = Forward()
    seen.output = run(parts, tensors, x, "", seen, training)
    return seen


def run(
    parts: Parts, tensors: Mapping[str, Rounded], x: Rounded, prefix: str, seen: Forward, training: bool
) -> Rounded:
    for index, part in enumerate(parts):
        name = f"{prefix}{index}"
        if isinstance(part, Residual):
            x = x + run(part.body, tensors, x, f"{name}.body.", seen, training)
        elif isinstance(part, Linear | Conv):
            seen.features, seen.features_axis = x, -1 if isinstance(part, Linear) else 1
            weight, bias = tensors[f"{name}.weight"], tensors.get(f"{name}.bias")
            if isinstance(part, Linear):
                x = linear(x, weight, bias)
            elif part.transposed:
                x = transposed_convolution(x, weight, bias, part)
            else:
                x = convolution(x, weight, bias, part)
        elif isinstance(part, Norm):
            x = normalised(x, part, {key: tensors.get(f"{name}.{key}") for key in NORM_TENSORS}, training)
        elif isinstance(part, Activation):
            h = activated(x, part)
            seen.sites.append(Site(name, x, h, unit_axis(x)))
            x = h
        elif isinstance(part, AvgPool):
            x = pooled(x, part.size).mean(-1)
        elif isinstance(part, MaxPool):
            x = pooled(x, part.size).moved(lambda a: a.max(-1))
        elif isinstance(part, Flatten):
            x = x.moved(lambda a: a.reshape(len(a), -1))
    return x


def unit_axis(x: Rounded) -> int:
    """Units are channels of feature maps, and the last dimension of all else."""
    return 1 if len(x.shape) == 4 else len(x.shape) - 1


def linear(x: Rounded, weight: Rounded, bias: Rounded | None) -> Rounded:
    columns = []
    for row in range(len(weight)):
        y = (x * weight[row]).sum(-1)
        columns.append(y if bias is None else y + bias[row])
    return stacked(columns, axis=-1)


def convolution(x: Rounded, weight: Rounded, bias: Rounded | None, conv: Conv) -> Rounded:
    """Each output channel reads the input channels of its group, window by window."""
    pad = conv.padding
    x = x.moved(lambda a: np.pad(a, ((0, 0), (0, 0), (pad, pad), (pad, pad))))
    height, width = ((size - conv.kernel) // conv.stride + 1 for size in x.shape[2:])
    per_group_in, per_group_out = conv.num_inputs // conv.groups, conv.num_outputs // conv.groups
    channels = []
    for channel in range(conv.num_outputs):
        first = channel // per_group_out * per_group_in
        rows = []
        for i in range(height):
            for j in range(width):
                top, left = i * conv.stride, j * conv.stride
                window = x[:, first : first + per_group_in, top : top + conv.kernel, left : left + conv.kernel]
                rows.append((window * weight[channel]).sum((1, 2, 3)))
        y = stacked(rows, axis=-1)
        channels.append(y if bias is None else y + bias[channel])
    return stacked(channels, axis=1).moved(lambda a: a.reshape(len(a), conv.num_outputs, height, width))


def transposed_convolution(x: Rounded, weight: Rounded, bias: Rounded | None, conv: Conv) -> Rounded:
    """Each input position writes its kernel, scaled, into a window of the output."""
    size_in = x.shape[2]
    size_out = (size_in - 1) * conv.stride - 2 * conv.padding + conv.kernel
    per_group_in, per_group_out = conv.num_inputs // conv.groups, conv.num_outputs // conv.groups
    channels = []
    for channel in range(conv.num_outputs):
        group, row = divmod(channel, per_group_out)
        places = []
        for i in range(size_out):
            for j in range(size_out):
                terms = [
                    x[:, c, top, left]
                    * weight[c, row, i + conv.padding - top * conv.stride, j + conv.padding - left * conv.stride]
                    for c in range(group * per_group_in, (group + 1) * per_group_in)
                    for top in range(size_in)
                    for left in range(size_in)
                    if 0 <= i + conv.padding - top * conv.stride < conv.kernel
                    and 0 <= j + conv.padding - left * conv.stride < conv.kernel
                ]
                zero = Rounded(np.zeros(len(x)), unit=x.unit)
                places.append(stacked([zero, *terms]).sum(0))
        y = stacked(places, axis=-1)
        channels.append(y if bias is None else y + bias[channel])
    return stacked(channels, axis=1).moved(lambda a: a.reshape(len(a), conv.num_outputs, size_out, size_out))


NORM_TENSORS = ("weight", "bias", "running_mean", "running_var")


def normalised(x: Rounded, norm: Norm, own: dict[str, Rounded | None], training: bool) -> Rounded:
    """(x - mean) / sqrt(var + eps), then scale and shift by unit."""
    axis = len(x.shape) - 1 if norm.kind == "layer" else 1
    if norm.kind == "layer":
        y = standardised(x, (axis,))
    elif norm.kind == "group":
        size = norm.width // norm.groups
        groups = [x[:, start : start + size] for start in range(0, norm.width, size)]
        y = joined([standardised(group, tuple(range(1, len(x.shape)))) for group in groups], axis=1)
    elif training:
        y = standardised(x, tuple(d for d in range(len(x.shape)) if d != 1))
    else:
        mean, var = own["running_mean"], own["running_var"]
        y = (x - along(mean, axis, x)) / along((var + EPS_OF_NORMS).sqrt(), axis, x)
    if own["weight"] is None:
        return y
    return y * along(own["weight"], axis, x) + along(own["bias"], axis, x)


def standardised(x: Rounded, axes: tuple[int, ...]) -> Rounded:
    """Less its mean over the axes, over the root of its mean square there."""
    centred = x - kept_axes(x.mean(axes), axes)
    var = (centred * centred).mean(axes)
    return centred / kept_axes((var + EPS_OF_NORMS).sqrt(), axes)


def kept_axes(x: Rounded, axes: tuple[int, ...]) -> Rounded:
    return x.moved(lambda a: np.expand_dims(a, axes))


def along(entries: Rounded, axis: int, x: Rounded) -> Rounded:
    """One entry for each index of the axis, shaped to meet x."""
    return entries.moved(lambda a: a.reshape([-1 if d == axis else 1 for d in range(len(x.shape))]))


def activated(z: Rounded, activation: Activation) -> Rounded:
    """The activation in evaluation mode."""
    kind, values = activation.kind, activation.values
    if kind in ("relu", "relu_dropout"):
        return z.clip(0.0, np.inf)
    if kind == "identity":
        return z.copy()
    if kind == "tanh":
        return z.smooth(np.tanh, slope=1.0)
    if kind == "sigmoid":
        return z.smooth(lambda v: 1.0 / (1.0 + np.exp(-v)), slope=0.25)
    if kind == "crelu":
        return joined([z.clip(0.0, np.inf), (-z).clip(0.0, np.inf)], axis=1)
    if kind == "fourier":
        return joined([z.smooth(np.sin, slope=1.0), z.smooth(np.cos, slope=1.0)], axis=1)
    slopes = np.empty(z.shape)
    for place in np.ndindex(*z.shape):
        slopes[place] = evaluated_slope(z.value[place], kind, values)
    return z * slopes


def evaluated_slope(z: float, kind: str, values: tuple) -> float:
    if kind == "rrelu":
        return activations.rrelu_slope(z, sum(values) / 2)
    if kind == "interval":
        return activations.mean_slope(z, (*values, 1.0))
    return activations.mean_slope(z, getattr(activations, kind)(*values))


def pooled(x: Rounded, size: int) -> Rounded:
    """The windows of a pool of that size and stride, in a last dimension."""
    height, width = x.shape[2] // size, x.shape[3] // size
    windows = [
        x[:, :, i : i + size * height : size, j : j + size * width : size] for i in range(size) for j in range(size)
    ]
    return stacked([w[:, :, :height, :width] for w in windows], axis=-1)


def is_decided(seen: Forward, parts: Parts) -> bool:
    """Whether rounding can change no sign of a pre-activation, and move none over the edge of an interval."""
    edges = {name: part.values[0] for name, part in named_parts(parts) if getattr(part, "kind", "") == "interval"}
    return all(
        (np.abs(site.z.value - edge) > 2 * site.z.bound)[(site.z.value != edge) | (site.z.bound > 0)].all()
        for site in seen.sites
        for edge in (0.0, *edges.get(site.name, ()))
    )
