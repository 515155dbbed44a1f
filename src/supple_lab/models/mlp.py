"""MLP: fully connected layers of one width (paper appendix D.2: three hidden layers of 2,000 units)."""

import math
from dataclasses import dataclass

from torch import nn

from supple_lab.models.base import Activation, Model


@dataclass(frozen=True, kw_only=True)
class MLP(Model):
    """Flatten, ``num_hidden`` times linear and activation, linear."""

    name = "mlp"
    width: int = 2000
    num_hidden: int = 3

    def __post_init__(self) -> None:
        for field in ("width", "num_hidden"):
            if getattr(self, field) < 1:
                raise ValueError(f"MLP.{field} must be at least 1; got {getattr(self, field)}.")

    def build(self, activation: Activation, *, image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
        layers: list[nn.Module] = [nn.Flatten()]
        num_features = math.prod(image_shape)
        for _ in range(self.num_hidden):
            site = activation()
            layers += [kaiming_linear(num_features, self.width, gain=math.sqrt(2)), site]
            num_features = self.width * getattr(site, "expansion", 1)
        return nn.Sequential(*layers, kaiming_linear(num_features, num_classes, gain=1.0))


def kaiming_linear(num_inputs: int, num_outputs: int, *, gain: float) -> nn.Linear:
    """Kaiming-uniform weights by fan-in, zero biases: the initialisation of Dohare et al., whom the paper follows."""
    linear = nn.Linear(num_inputs, num_outputs)
    bound = gain * math.sqrt(3.0 / num_inputs)
    nn.init.uniform_(linear.weight, -bound, bound)
    nn.init.zeros_(linear.bias)
    return linear
