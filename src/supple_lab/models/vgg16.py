"""VGG-16 with batch normalisation, the paper's network for TinyImageNet (appendix F.3)."""

from dataclasses import dataclass

from torch import nn

from supple_lab.errors import at_least
from supple_lab.models.base import Activation, Model, halved, pool_after

BLOCKS = ((1, 2), (2, 2), (4, 3), (8, 3), (8, 3))  # width over the first one's, and convolutions; a pool after each


@dataclass(frozen=True, kw_only=True)
class VGG16(Model):
    """Thirteen 3x3 convolutions with norm and activation in five blocks; two hidden linear layers, no dropout."""

    name = "vgg16"
    smallest_image = 32
    width: int = 64
    hidden: int = 4096

    def __post_init__(self) -> None:
        at_least(1, self, "width", "hidden")

    def build(self, activation: Activation, *, image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
        layers: list[nn.Module] = []
        channels = image_shape[0]
        for factor, num_convolutions in BLOCKS:
            for _ in range(num_convolutions):
                own = halved(factor * self.width, activation)
                layers += [nn.Conv2d(channels, own, 3, padding=1), nn.BatchNorm2d(own), activation()]
                channels = factor * self.width
            layers.append(pool_after(activation))
        layers.append(nn.Flatten())
        num_features = channels * (image_shape[1] // 32) * (image_shape[2] // 32)
        for _ in range(2):
            layers += [nn.Linear(num_features, halved(self.hidden, activation)), activation()]
            num_features = self.hidden
        return nn.Sequential(*layers, nn.Linear(num_features, num_classes))
