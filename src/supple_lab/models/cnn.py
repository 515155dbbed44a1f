"""CNN: two convolutions and two hidden linear layers, the paper's network for CIFAR-10 (appendix F.3)."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Literal

from torch import nn

from supple.convert.pools import AveragePool2d
from supple_lab.errors import at_least
from supple_lab.models.base import Activation, Model, halved, pool_after


@dataclass(frozen=True, kw_only=True)
class CNN(Model):
    """5x5 convolutions without padding, each with activation and pool; then linear layers, each with activation.

    The paper's "4-layer" counts the hidden layers; ``num_linear=1`` is the other reading of its text.
    """

    name = "cnn"
    smallest_image = 16
    channels: int = 16
    hidden: int = 100
    num_linear: int = 2
    pool: Literal["by_activation", "max", "average"] = field(default="by_activation", metadata={"later": True})

    def __post_init__(self) -> None:
        at_least(1, self, "channels", "hidden")
        at_least(0, self, "num_linear")

    def build(self, activation: Activation, *, image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
        pools: dict[str, Callable[[], nn.Module]] = {
            "by_activation": partial(pool_after, activation),
            "max": partial(nn.MaxPool2d, 2),
            "average": partial(AveragePool2d, 2),
        }
        pool = pools[self.pool]
        own, following = halved(self.channels, activation), self.channels
        convolutions = nn.Sequential(
            *(nn.Conv2d(image_shape[0], own, 5), activation(), pool()),
            *(nn.Conv2d(following, own, 5), activation(), pool()),
            nn.Flatten(),
        )
        # Counted, not tried out: a forward may draw masks, and the linear layers would start elsewhere than vanilla's.
        num_features = following * math.prod(((side - 4) // 2 - 4) // 2 for side in image_shape[1:])
        widths = [num_features] + [self.hidden] * self.num_linear
        hidden = [
            layer
            for before, after in pairwise(widths)
            for layer in (nn.Linear(before, halved(after, activation)), activation())
        ]
        return nn.Sequential(*convolutions, *hidden, nn.Linear(widths[-1], num_classes))
