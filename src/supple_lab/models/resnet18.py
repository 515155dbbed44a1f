"""ResNet-18 for small images: no stem, as in Lee et al. 2024, whom the paper follows (appendix F.3)."""

from dataclasses import dataclass, field

from torch import Tensor, nn

from supple_lab.errors import at_least, positive
from supple_lab.models.base import Activation, Model, halved

STAGES = ((1, 1), (2, 2), (4, 2), (8, 2))  # width over the first one's, and stride; two blocks each


@dataclass(frozen=True, kw_only=True)
class ResNet18(Model):
    """A 3x3 convolution, eight basic blocks, the global mean, a linear layer; ``head_hidden`` adds one before it."""

    name = "resnet18"
    width: int = 64
    head_hidden: int = 0  # Lee et al. have 512 here; the paper does not mention it
    clip_norm: float | None = field(default=0.5, metadata={"later": True})  # the paper clips this network alone

    def __post_init__(self) -> None:
        positive(self, "clip_norm")
        at_least(1, self, "width")
        at_least(0, self, "head_hidden")

    def build(self, activation: Activation, *, image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
        own = halved(self.width, activation)
        stem = [nn.Conv2d(image_shape[0], own, 3, padding=1, bias=False), nn.BatchNorm2d(own), activation()]
        blocks, width = [], self.width
        for factor, stride in STAGES:
            for block_stride in (stride, 1):
                blocks.append(BasicBlock(width, factor * self.width, activation, stride=block_stride))
                width = factor * self.width
        head: list[nn.Module] = [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        if self.head_hidden:
            head += [nn.Linear(width, halved(self.head_hidden, activation)), activation()]
        return nn.Sequential(*stem, *blocks, *head, nn.Linear(self.head_hidden or width, num_classes))


class BasicBlock(nn.Module):
    """Two convolutions and a shortcut; the sum is taken before the activation, which may concatenate."""

    def __init__(self, num_inputs: int, num_outputs: int, activation: Activation, *, stride: int) -> None:
        super().__init__()
        own = halved(num_outputs, activation)
        self.conv1 = nn.Conv2d(num_inputs, own, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(own)
        self.act1 = activation()
        self.conv2 = nn.Conv2d(num_outputs, own, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(own)
        self.act2 = activation()
        self.shortcut = nn.Sequential()
        if stride != 1 or num_inputs != own:
            self.shortcut = nn.Sequential(nn.Conv2d(num_inputs, own, 1, stride, bias=False), nn.BatchNorm2d(own))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.act1(self.norm1(self.conv1(x)))
        return self.act2(self.norm2(self.conv2(hidden)) + self.shortcut(x))
