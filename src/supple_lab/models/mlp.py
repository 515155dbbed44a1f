"""MLP: fully connected layers of one width (appendix F.2: three hidden layers of 2,000 units)."""

import math
from dataclasses import dataclass, field
from typing import Literal

from torch import nn

from supple.layers import Identity
from supple_lab.errors import at_least
from supple_lab.models.base import Activation, Model


@dataclass(frozen=True, kw_only=True)
class MLP(Model):
    """Flatten, ``num_hidden`` times linear and activation, linear.

    Weights are Kaiming-uniform with the gain of the activation, as in Dohare et al.'s code: 5/3 for tanh, 1 for the
    sigmoid, the identity and the output layer, ReLU's for all others.

    Under an activation that gives two values for one (CReLU, Fourier) the layers are narrower, by one of the paper's
    two rules: "matched" keeps the number of parameters (trainability), "halved" the width after the activation.
    """

    name = "mlp"
    width: int = 2000
    num_hidden: int = 3
    narrowing: Literal["matched", "halved"] = field(default="matched", metadata={"later": True})
    init: Literal["kaiming", "torch"] = field(default="kaiming", metadata={"later": True})  # torch: nn.Linear's own

    def __post_init__(self) -> None:
        at_least(1, self, "width", "num_hidden")

    def build(self, activation: Activation, *, image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
        sites = [activation() for _ in range(self.num_hidden)]
        expansion = getattr(sites[0], "expansion", 1)
        num_features = math.prod(image_shape)
        width = self.width_for(expansion, num_inputs=num_features, num_classes=num_classes)
        layers: list[nn.Module] = [nn.Flatten()]
        for site in sites:
            layers += [self.linear(num_features, width, gain=GAINS.get(type(site), math.sqrt(2))), site]
            num_features = width * expansion
        return nn.Sequential(*layers, self.linear(num_features, num_classes, gain=1.0))

    def linear(self, num_inputs: int, num_outputs: int, *, gain: float) -> nn.Linear:
        """A layer, initialised as the field says: torch's own, or Kaiming-uniform by fan-in with zero biases."""
        linear = nn.Linear(num_inputs, num_outputs)
        if self.init == "kaiming":
            bound = gain * math.sqrt(3.0 / num_inputs)
            nn.init.uniform_(linear.weight, -bound, bound)
            nn.init.zeros_(linear.bias)
        return linear

    def width_for(self, expansion: int, *, num_inputs: int, num_classes: int) -> int:
        if expansion == 1:
            return self.width
        if self.narrowing == "halved":
            if self.width % expansion:
                raise ValueError(f"MLP.width must be divisible by {expansion} to be halved; got {self.width}.")
            return self.width // expansion

        def num_parameters(width: int, expansion: int) -> int:
            between = (self.num_hidden - 1) * (expansion * width + 1) * width
            return (num_inputs + 1) * width + between + (expansion * width + 1) * num_classes

        wanted = num_parameters(self.width, 1)
        return min(range(1, self.width + 1), key=lambda width: abs(num_parameters(width, expansion) - wanted))


GAINS = {nn.Tanh: 5 / 3, nn.Sigmoid: 1.0, Identity: 1.0}  # as nn.init.calculate_gain has them; others: ReLU's
