"""The Q-network of Mnih et al. 2015 for 84x84 frames, with Dopamine's initialisation."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from supple_lab.models.base import Activation, Model, halved


@dataclass(frozen=True, kw_only=True)
class NatureDQN(Model):
    """Frames in 0 .. 255; three convolutions without padding, 512 hidden units, a value per action."""

    name = "nature_dqn"
    smallest_image = 36

    def build(self, activation: Activation, *, image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
        own = {width: halved(width, activation) for width in (32, 64, 512)}
        convolutions = nn.Sequential(
            ToUnit(),
            *(nn.Conv2d(image_shape[0], own[32], 8, stride=4), activation()),
            *(nn.Conv2d(32, own[64], 4, stride=2), activation()),
            *(nn.Conv2d(64, own[64], 3, stride=1), activation()),
            nn.Flatten(),
        )
        with torch.no_grad():
            # In evaluation mode: a mask drawn here would move the stream that the weights are drawn from.
            num_features = convolutions.eval()(torch.zeros(1, *image_shape)).shape[1]
        convolutions.train()
        network = nn.Sequential(
            *convolutions, nn.Linear(num_features, own[512]), activation(), nn.Linear(512, num_classes)
        )
        return network.apply(initialise_)


class ToUnit(nn.Module):
    """Frames of bytes as numbers in [0, 1]."""

    def forward(self, frames: Tensor) -> Tensor:
        return frames.float() / 255.0


def initialise_(module: nn.Module) -> None:
    """Xavier-uniform weights and zero biases."""
    if isinstance(module, (nn.Conv2d, nn.Linear)):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
