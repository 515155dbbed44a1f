"""Networks of many families, small, with one activation module per site: what a tracer of units has to cope with."""

import random

import torch
import torch.nn.functional as F
from torch import nn

from written import holding


def mlp(activation=nn.ReLU, width: int = 7) -> nn.Module:
    first, second = activation(), activation()
    wide = width * getattr(first, "expansion", 1)
    return nn.Sequential(nn.Linear(6, width), first, nn.Linear(wide, width), second, nn.Linear(wide, 3))


def cnn(activation=nn.ReLU, pool=nn.MaxPool2d) -> nn.Module:
    """Convolutions without padding, pools, a flatten of 5 x 2 x 2, two linear layers (as the paper's CNN)."""
    acts = [activation() for _ in range(3)]
    k = getattr(acts[0], "expansion", 1)
    return nn.Sequential(
        *(nn.Conv2d(3, 4, 3), acts[0], pool(2)),
        *(nn.Conv2d(4 * k, 5, 3), acts[1], pool(2)),
        *(nn.Flatten(), nn.Linear(20 * k, 8), acts[2], nn.Linear(8 * k, 3)),
    )


def vgg_bn() -> nn.Module:
    """Convolution, batch norm, activation; average-pooled to 2 x 2; dropout in the classifier."""
    features = nn.Sequential(
        *(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True)),
        *(nn.Conv2d(4, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(inplace=True), nn.MaxPool2d(2, 2)),
    )
    classifier = nn.Sequential(nn.Linear(24, 8), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(8, 3))
    return nn.Sequential(features, nn.AdaptiveAvgPool2d(2), nn.Flatten(), classifier)


class NatureDQN(nn.Module):
    """Scaled input, three strided convolutions, two linear layers."""

    def __init__(self, activation=nn.ReLU) -> None:
        super().__init__()
        self.conv1, self.act1 = nn.Conv2d(4, 5, 8, 4), activation()
        self.conv2, self.act2 = nn.Conv2d(5, 6, 4, 2), activation()
        self.conv3, self.act3 = nn.Conv2d(6, 6, 3, 1), activation()
        self.fc, self.act4, self.head = nn.Linear(54, 9), activation(), nn.Linear(9, 4)

    def forward(self, x):
        x = self.act1(self.conv1(x / 255.0))
        x = self.act3(self.conv3(self.act2(self.conv2(x))))
        return self.head(self.act4(self.fc(x.reshape(x.size(0), -1))))


class BasicBlock(nn.Module):
    """Two convolutions with batch norm and a shortcut, where the shape changes a projection; sums before it widens."""

    def __init__(self, width: int, out_width: int, stride: int, activation) -> None:
        super().__init__()
        self.act1, self.act2 = activation(), activation()
        k = getattr(self.act1, "expansion", 1)
        self.conv1, self.bn1 = nn.Conv2d(width, out_width, 3, stride, 1, bias=False), nn.BatchNorm2d(out_width)
        self.conv2, self.bn2 = nn.Conv2d(k * out_width, out_width, 3, 1, 1, bias=False), nn.BatchNorm2d(out_width)
        self.shortcut = nn.Sequential()
        if stride > 1 or width != out_width:
            self.shortcut = nn.Sequential(nn.Conv2d(width, out_width, 1, stride, bias=False), nn.BatchNorm2d(out_width))

    def forward(self, x):
        out = self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x)))))
        return self.act2(out + self.shortcut(x))


class ResNet(nn.Module):
    """Without a stem: a 3 x 3 convolution, basic blocks, the average of every channel, a head."""

    def __init__(self, activation=nn.ReLU) -> None:
        super().__init__()
        self.conv, self.bn, self.act = nn.Conv2d(3, 4, 3, 1, 1, bias=False), nn.BatchNorm2d(4), activation()
        k = getattr(self.act, "expansion", 1)
        self.blocks = nn.Sequential(BasicBlock(4 * k, 4, 1, activation), BasicBlock(4 * k, 6, 2, activation))
        self.fc = nn.Linear(6 * k, 3)

    def forward(self, x):
        x = self.blocks(self.act(self.bn(self.conv(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class DenseLayer(nn.Module):
    """Batch norm and activation of all that came before, a convolution, the result beside its input."""

    def __init__(self, width: int, growth: int) -> None:
        super().__init__()
        self.bn1, self.act1 = nn.BatchNorm2d(width), nn.ReLU()
        self.conv1, self.bn2, self.act2 = nn.Conv2d(width, 2 * growth, 1), nn.BatchNorm2d(2 * growth), nn.ReLU()
        self.conv2 = nn.Conv2d(2 * growth, growth, 3, padding=1)

    def forward(self, x):
        return torch.cat([x, self.conv2(self.act2(self.bn2(self.conv1(self.act1(self.bn1(x))))))], 1)


def densenet() -> nn.Module:
    layers = [nn.Conv2d(3, 4, 3, padding=1), DenseLayer(4, 3), DenseLayer(7, 3), nn.AvgPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(10 * 4 * 4, 3))


class TransformerBlock(nn.Module):
    """Attention written out, a two-layer MLP on every token, both with layer norm and a residual sum."""

    def __init__(self, dim: int = 6) -> None:
        super().__init__()
        self.norm1, self.qkv, self.proj = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 10), nn.GELU(), nn.Dropout(0.1), nn.Linear(10, dim))

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v))
        return x + self.mlp(self.norm2(x))


class ConvNeXtBlock(nn.Module):
    """A depthwise convolution, then layer norm and linear layers over channels in the last dimension, a layer scale."""

    def __init__(self, dim: int = 6) -> None:
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(dim, dim, 3, padding=1, groups=dim), nn.LayerNorm(dim)
        self.fc1, self.act, self.fc2 = nn.Linear(dim, 9), nn.GELU(), nn.Linear(9, dim)
        self.gamma = nn.Parameter(torch.full((dim,), 0.5))

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.gamma * self.fc2(self.act(self.fc1(y)))).permute(0, 3, 1, 2)


class SqueezeExcite(nn.Module):
    """A channel gate: its sigmoid multiplies what it was computed from."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.act = nn.Conv2d(3, 6, 3), nn.ReLU()
        self.reduce, self.act1 = nn.Conv2d(6, 2, 1), nn.ReLU()
        self.expand, self.gate = nn.Conv2d(2, 6, 1), nn.Sigmoid()
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        x = self.act(self.conv(x))
        gate = self.gate(self.expand(self.act1(self.reduce(x.mean((2, 3), keepdim=True)))))
        return self.head((x * gate).amax((2, 3)))


class TwoBranches(nn.Module):
    """Two convolutions side by side, concatenated, flattened with channels last; one of them read once more."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.act_left = nn.Conv2d(3, 4, 3, padding=1), nn.ReLU()
        self.right, self.act_right = nn.Conv2d(3, 5, 3, padding=1), nn.Tanh()
        self.fc, self.extra = nn.Linear(9 * 4, 3), nn.Linear(5, 3)

    def forward(self, x):
        left, right = self.act_left(self.left(x)), self.act_right(self.right(x))
        both = F.adaptive_avg_pool2d(torch.cat([left, right], 1), 2)
        return self.fc(both.permute(0, 2, 3, 1).flatten(1)) + self.extra(right.mean((-2, -1)))


class WithBlocks(nn.Module):
    """Parts of the forward under autocast, one in the other, and without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.act1, self.fc2, self.act2 = nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU()
        self.fc3 = nn.Linear(4, 3)

    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            with torch.no_grad():
                scale = x.abs().amax()
            x = self.act1(self.fc1(x))
        return self.fc3(self.act2(self.fc2(x))) * scale


class OwnActivations(nn.Module):
    """Activations nobody has heard of, and modules without parts that are none."""

    class Rectify(nn.Module):
        def forward(self, x):
            return torch.where(x > 0, x * x, torch.zeros_like(x))

    class Both(nn.Module):
        def forward(self, x):
            return torch.cat([x.relu(), (-x).relu()], 1)

    @holding(lambda: {"scale": nn.Parameter(torch.ones(5))})
    class Scale(nn.Module):
        def forward(self, x):
            return x * self.scale + 1

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.scale, self.rectify = nn.Linear(6, 5), self.Scale(), self.Rectify()
        self.fc2, self.both, self.fc3 = nn.Linear(5, 4), self.Both(), nn.Linear(8, 3)

    def forward(self, x):
        return self.fc3(self.both(self.fc2(self.rectify(self.scale(self.fc1(x))))))


def padded_cnn(pad: nn.Module, width: int = 4) -> nn.Module:
    """A pad between an activation and the convolution that reads it, and again before the flatten to 5 x 4 x 4."""
    return nn.Sequential(
        *(nn.Conv2d(3, 4, 3), nn.ReLU(), pad, nn.Conv2d(width, 5, 3), nn.AdaptiveAvgPool2d(2), nn.ReLU()),
        *(nn.ZeroPad2d(1), nn.Flatten(), nn.Linear(80, 3)),
    )


class Pad(nn.Module):
    """A pad with constants, given as for torch: two widths for each dimension, from the last on."""

    def __init__(self, *widths: int, value: float = 0.0) -> None:
        super().__init__()
        self.widths, self.value = widths, value

    def forward(self, x):
        return F.pad(x, self.widths, value=self.value)


class PaddedShortcut(nn.Module):
    """A residual block whose shortcut has no weights: every other position, and channels of zeros on both sides."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.act = nn.Conv2d(3, 4, 3), nn.ReLU()
        self.conv1, self.act1 = nn.Conv2d(4, 8, 3, 2, 1), nn.ReLU()
        self.conv2, self.act2, self.fc = nn.Conv2d(8, 8, 3, 1, 1), nn.ReLU(), nn.Linear(8, 3)

    def forward(self, x):
        x = self.act(self.conv(x))
        shortcut = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 2, 2))
        x = self.act2(self.conv2(self.act1(self.conv1(x))) + shortcut)
        return self.fc(x.mean((2, 3)))


class WritesIntoViews(nn.Module):
    """Activations in place on a view of what the shortcut reads, and on a part of it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.act1, self.act2 = nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True), nn.ReLU(inplace=True)
        self.fc1, self.fc2, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        x = self.conv(x)
        self.act1(x.flatten(2))
        x = self.fc1(x.mean((2, 3)))
        y = self.fc2(self.act2(x[:, :4]))
        return self.head(y + x)


class Tied(nn.Module):
    """One linear layer called twice, and two that share a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.act1, self.act2 = nn.Linear(6, 6), nn.ReLU(), nn.ReLU()
        self.encode, self.act3, self.decode = nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6)
        self.decode.weight = self.encode.weight

    def forward(self, x):
        x = self.act2(self.fc(self.act1(self.fc(x))))
        return self.decode(self.act3(self.encode(x)))


class NormsOfTheirOwn(nn.Module):
    """A linear layer with a norm in it, one batch norm for two layers, two norms for one."""

    class NormedLinear(nn.Linear):
        def __init__(self) -> None:
            super().__init__(6, 6)
            self.scale = nn.Parameter(torch.ones(6))

        def forward(self, x):
            return F.layer_norm(super().forward(x), (6,), self.scale)

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.act1 = self.NormedLinear(), nn.ReLU()
        self.norm, self.fc2, self.act2 = nn.BatchNorm1d(6), nn.Linear(6, 6), nn.ReLU()
        self.fc3, self.act3 = nn.Linear(6, 6), nn.ReLU()
        self.fc4, self.act4, self.norms = nn.Linear(6, 6), nn.ReLU(), nn.Sequential(nn.LayerNorm(6), nn.BatchNorm1d(6))
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        x = self.act2(self.norm(self.fc2(self.act1(self.fc1(x)))))
        x = self.act3(self.norm(self.fc3(x)))
        return self.head(self.act4(self.norms(self.fc4(x))))


@holding(lambda: {"fc1": nn.Linear(6, 6), "act": nn.ReLU(), "fc2": nn.Linear(6, 6)})
class ReadPast(nn.Module):
    """The first layer feeds an activation, and a shortcut around it."""

    def forward(self, x):
        x = self.fc1(x)
        return x + self.fc2(self.act(x))


@holding(lambda: {"fc": nn.Linear(6, 8), "act": nn.ReLU(), "head": nn.Linear(4, 3)})
class Maxout(nn.Module):
    """Units compete in pairs."""

    def forward(self, x):
        x = self.act(self.fc(x))
        return self.head(torch.maximum(x[:, :4], x[:, 4:]))


@holding(lambda: {"fc": nn.Linear(6, 8), "act": nn.ReLU(), "head": nn.Linear(8, 3)})
class Jitter(nn.Module):
    """Draws from Python's random numbers and from torch's in evaluation mode, too."""

    def forward(self, x):
        x = self.act(self.fc(x * random.random() + torch.randn_like(x)))
        return self.head(x)


@holding(lambda: {"fc": nn.Linear(6, 8), "act": nn.ReLU(), "first": nn.Linear(4, 3), "second": nn.Linear(4, 3)})
class Halves(nn.Module):
    """Half of the units go to one layer, half to another."""

    def forward(self, x):
        first, second = self.act(self.fc(x)).chunk(2, dim=1)
        return self.first(first) + self.second(second)
