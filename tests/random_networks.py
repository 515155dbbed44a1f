"""Random networks for property tests: drawn as lists of parts, built as torch modules, filled with random weights."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from oracles.networks import Activation, AvgPool, Conv, Flatten, Linear, MaxPool, Norm, Parts, Residual, named_parts
from oracles.rounding import Rounded
from supple import AID, CReLU, DropReLU, Fourier, IntervalDropout, ReLUDropout
from supple.layers import Identity, RReLU

PLAIN = (Activation("relu"), Activation("tanh"), Activation("sigmoid"), Activation("identity"))
MASKED = (
    Activation("aid", (0.8,)),
    Activation("drop_relu", (0.7,)),
    Activation("relu_dropout", (0.3,)),
    Activation("rrelu", (0.125, 0.333)),
    Activation("interval", ((-0.5, 0.25), (0.2, 0.9, 0.4))),
)
DOUBLED = (Activation("crelu"), Activation("fourier"))
EVERY_ACTIVATION = (*PLAIN, *MASKED, *DOUBLED)

MODULES = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "identity": Identity,
    "aid": AID,
    "drop_relu": DropReLU,
    "relu_dropout": ReLUDropout,
    "rrelu": RReLU,
    "interval": IntervalDropout,
    "crelu": CReLU,
    "fourier": Fourier,
}


@dataclass(frozen=True)
class Network:
    """Parts, and the shape of one example."""

    parts: Parts
    example: tuple[int, ...]
    channels_last: bool
    dtype: torch.dtype
    seed: int

    def module(self) -> nn.Sequential:
        """The network with random weights, norms and running statistics; some units are dead, some always zero."""
        model = Blocks(self.parts).to(self.dtype)
        for name, part in named_parts(self.parts):
            if isinstance(part, Linear) and part.tied_to is not None:
                model.get_submodule(name).weight = model.get_submodule(part.tied_to).weight
        fill_(model, self.seed)
        return model.to(memory_format=torch.channels_last) if self.channels_last else model

    def inputs(self, num_examples: int, *, salt: int = 0) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed + 7919 * (salt + 1))
        x = torch.randn(num_examples, *self.example, generator=generator, dtype=torch.float64).to(self.dtype)
        return x.to(memory_format=torch.channels_last) if self.channels_last else x

    @property
    def can_freeze(self) -> bool:
        """Whether weights may be frozen: torch crashes on a channels_last group norm whose input needs no gradient."""
        return not (
            self.channels_last and any(getattr(part, "kind", "") == "group" for _, part in named_parts(self.parts))
        )

    @property
    def unit(self) -> float:
        return torch.finfo(self.dtype).eps / 2

    @property
    def tiny(self) -> float:
        return torch.finfo(self.dtype).tiny


class Blocks(nn.Sequential):
    """The modules of a list of parts, one after the other."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(*(module_of(part) for part in parts))


class ResidualBlock(nn.Module):
    def __init__(self, body: Parts) -> None:
        super().__init__()
        self.body = Blocks(body)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


def module_of(part: object) -> nn.Module:
    if isinstance(part, Linear):
        return nn.Linear(part.num_inputs, part.num_outputs, bias=part.bias)
    if isinstance(part, Conv):
        kind = nn.ConvTranspose2d if part.transposed else nn.Conv2d
        options = {"stride": part.stride, "padding": part.padding, "groups": part.groups, "bias": part.bias}
        return kind(part.num_inputs, part.num_outputs, part.kernel, **options)
    if isinstance(part, Norm):
        if part.kind == "layer":
            return nn.LayerNorm(part.width, elementwise_affine=part.affine)
        if part.kind == "group":
            return nn.GroupNorm(part.groups, part.width, affine=part.affine)
        return AnyBatchNorm(part.width, affine=part.affine)
    if isinstance(part, Activation):
        return MODULES[part.kind](*part.values)
    if isinstance(part, Residual):
        return ResidualBlock(part.body)
    return {AvgPool: lambda: nn.AvgPool2d(part.size), MaxPool: lambda: nn.MaxPool2d(part.size), Flatten: nn.Flatten}[
        type(part)
    ]()


class AnyBatchNorm(nn.BatchNorm2d):
    """One class for features and feature maps; torch's own differ in this check alone."""

    def _check_input_dim(self, x: Tensor) -> None:
        pass


@torch.no_grad()
def fill_(model: nn.Module, seed: int) -> None:
    """Random values everywhere; every fifth or so row of a weight makes a unit that is always negative, or always 0."""
    rng = np.random.default_rng(seed)
    for name, tensor in {**dict(model.named_parameters()), **dict(model.named_buffers())}.items():
        if not tensor.is_floating_point():
            continue
        if name.endswith("running_var") or (name.endswith("weight") and tensor.dim() == 1):
            tensor.copy_(torch.tensor(rng.uniform(0.5, 2.0, tensor.shape)))
        else:
            fan_in = max(1, tensor[0].numel())
            tensor.copy_(torch.tensor(rng.normal(size=tensor.shape) * (1.5 / fan_in**0.5)))
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            for row in range(len(module.weight)):
                fate = rng.random()
                if fate < 0.2:
                    module.weight[row] = 0.0
                    if module.bias is not None:
                        module.bias[row] = -1.0 if fate < 0.1 else 0.0


def rounded(tensors: Mapping[str, Tensor], unit: float) -> dict[str, Rounded]:
    """Tensors as exact numbers."""
    return {name: exact(tensor, unit) for name, tensor in tensors.items()}


def exact(tensor: Tensor, unit: float) -> Rounded:
    return Rounded(tensor.detach().double().numpy(), unit=unit)


@st.composite
def networks(
    draw,
    *,
    activations: tuple[Activation, ...] = EVERY_ACTIVATION,
    dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.float64),
    kinds: tuple[str, ...] = ("features", "tokens", "maps"),
) -> Network:
    """Networks of one to three hidden layers on features, tokens (linear layers again) or feature maps."""
    kind = draw(st.sampled_from(kinds))
    if kind == "tokens":
        activations = tuple(a for a in activations if a.expansion == 1)
    activation = draw(st.sampled_from(activations))
    if kind == "maps":
        parts, example = draw(map_parts(activation))
    else:
        parts, example = draw(linear_parts(activation, tokens=kind == "tokens"))
    seed, dtype = draw(st.integers(0, 2**31)), draw(st.sampled_from(dtypes))
    return Network(parts, example, kind == "maps" and draw(st.booleans()), dtype, seed)


def widths() -> st.SearchStrategy[int]:
    return st.sampled_from([2, 4, 6])


@st.composite
def norms(draw, width: int, *, maps: bool, tokens: bool) -> list[Norm]:
    """No norm, or one that fits what comes before it."""
    kinds = ["none", "layer"] if tokens else ["none", "batch", "group"] if maps else ["none", "batch", "layer", "group"]
    kind = draw(st.sampled_from(kinds))
    if kind == "none":
        return []
    return [Norm(kind, width, groups=draw(st.sampled_from([1, 2])), affine=draw(st.booleans()))]


@st.composite
def linear_parts(draw, activation: Activation, *, tokens: bool) -> tuple[Parts, tuple[int, ...]]:
    width = num_features = draw(widths())
    parts: list = []
    for _ in range(draw(st.integers(1, 3))):
        shape = draw(st.sampled_from(["plain", "plain", "residual", "tied"]))
        if shape == "residual" and activation.expansion == 1:
            norm = draw(norms(width, maps=False, tokens=tokens))
            body = (Linear(width, width), *norm, activation, Linear(width, width))
            parts += [Residual(body), activation]
        elif shape == "tied" and activation.expansion == 1:
            parts += [Linear(width, width), activation]
            parts += [Linear(width, width, tied_to=str(len(parts) - 2)), activation]
        else:
            next_width = draw(widths())
            norm = draw(norms(next_width, maps=False, tokens=tokens))
            parts += [Linear(width, next_width, bias=draw(st.booleans())), *norm, activation]
            width = next_width * activation.expansion
    parts.append(Linear(width, 3))
    return tuple(parts), (2, num_features) if tokens else (num_features,)


@st.composite
def map_parts(draw, activation: Activation) -> tuple[Parts, tuple[int, ...]]:
    width = num_channels = draw(st.sampled_from([1, 2, 4]))
    size = first_size = draw(st.integers(4, 5))
    parts: list = []
    for _ in range(draw(st.integers(1, 2))):
        shape = draw(st.sampled_from(["plain", "plain", "residual", "transposed"]))
        if shape == "residual" and activation.expansion == 1:
            norm = draw(norms(width, maps=True, tokens=False)) if width > 1 else []
            body = (Conv(width, width, 3, padding=1), *norm, activation, Conv(width, width, 1, bias=False))
            parts += [Residual(body), activation]
            continue
        next_width = draw(st.sampled_from([2, 4]))
        groups = 2 if width % 2 == 0 and draw(st.booleans()) else 1
        options = {"groups": groups, "bias": draw(st.booleans())}
        if shape == "transposed":
            stride = draw(st.integers(1, 2)) if size < 4 else 1
            conv = Conv(width, next_width, 2, stride=stride, transposed=True, **options)
            size = (size - 1) * stride + 2
        else:
            stride, padding = draw(st.integers(1, 2)), draw(st.integers(0, 1))
            kernel = draw(st.integers(1, min(3, size + 2 * padding)))
            conv = Conv(width, next_width, kernel, stride=stride, padding=padding, **options)
            size = (size + 2 * padding - kernel) // stride + 1
        parts += [conv, *draw(norms(next_width, maps=True, tokens=False)), activation]
        width = next_width * activation.expansion
        if size >= 2 and draw(st.booleans()):
            parts.append(draw(st.sampled_from([AvgPool(), MaxPool()])))
            size //= 2
    parts += [Flatten(), Linear(width * size * size, 3)]
    return tuple(parts), (num_channels, first_size, first_size)
