"""Blank network: a run's network without memory or arithmetic, to see whether it can be built and how large it is."""

import torch
from torch import nn

from supple.methods.base import Method
from supple_lab.models.base import Model
from supple_lab.scenarios.base import Unsuitable

Shape = tuple[int, int, int]  # channels, height, width


def blank_network(model: Model, method: Method, *, image_shape: Shape, num_classes: int) -> nn.Module:
    """With the method's activation; Unsuitable, with the reason, if it cannot be built."""
    try:
        with torch.device("meta"):
            return model.build(method.activation, image_shape=image_shape, num_classes=num_classes)
    except ValueError as error:  # ours, such as an odd width for an activation that gives two values for one
        raise Unsuitable(f"{model.name} cannot be built with {method.name}: {error}") from error
    except RuntimeError as error:  # torch's own
        raise Unsuitable(
            f"{model.name} with {method.name} cannot read images of {shown(image_shape)} "
            f"({str(error).splitlines()[0]}). Choose another model or larger images."
        ) from error


def size_of(network: nn.Module) -> int:
    """How many parameters it has."""
    return sum(parameter.numel() for parameter in network.parameters())


def shown(shape: Shape) -> str:
    """An image's shape as people write it."""
    return "x".join(map(str, shape))
