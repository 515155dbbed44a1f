"""The network of Young & Tian 2019 for MinAtar's games."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from supple_lab.errors import at_least
from supple_lab.models.base import Activation, Model, halved


@dataclass(frozen=True, kw_only=True)
class MinAtarNet(Model):
    """A convolution of 3x3 without padding, a hidden layer, a value per action."""

    name = "minatar_net"
    smallest_image = 3
    channels: int = 16
    hidden: int = 128

    def __post_init__(self) -> None:
        at_least(1, self, "channels", "hidden")

    def build(self, activation: Activation, *, image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
        num_frames, height, side = image_shape
        num_planes = max(1, num_frames * height // side)
        size = (side - 2) * (num_frames * height // num_planes - 2)
        return nn.Sequential(
            Planes(num_planes),
            *(nn.Conv2d(num_planes, halved(self.channels, activation), 3), activation()),
            nn.Flatten(),
            *(nn.Linear(self.channels * size, halved(self.hidden, activation)), activation()),
            nn.Linear(self.hidden, num_classes),
        )


class Planes(nn.Module):
    """Square planes that lie one below the other in a frame, as channels."""

    def __init__(self, num_planes: int) -> None:
        super().__init__()
        self.num_planes = num_planes

    def forward(self, frames: Tensor) -> Tensor:
        return torch.reshape(frames.float(), (frames.shape[0], self.num_planes, -1, frames.shape[3]))
