"""Size of the weights: the Euclidean norm of all trainable ones together, and how far they are from their beginning."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from supple.metrics.base import Metric
from supple.metrics.observation import Observation


@dataclass(frozen=True, kw_only=True)
class WeightNorm(Metric):
    """``weight_norm``: the norm of theta, biases and norms' scales included."""

    name = "weight_norm"

    def measure(self, observation: Observation) -> dict[str, float]:
        return {"weight_norm": joint_norm(observation.parameters.values())}


@dataclass(frozen=True, kw_only=True)
class DistanceFromInit(Metric):
    """``distance_from_init``: the norm of theta - theta_0; it needs the initial parameters (``Learner.initial``)."""

    name = "distance_from_init"

    def measure(self, observation: Observation) -> dict[str, float]:
        if observation.initial is None:
            return {}
        initial = observation.initial
        moved = (p.detach().double() - initial[name].double() for name, p in observation.parameters.items())
        return {"distance_from_init": joint_norm(moved)}


def joint_norm(tensors: Iterable[Tensor]) -> float:
    """The norm of all the tensors laid end to end."""
    norms = [row_norms(tensor.detach()).cpu() for tensor in tensors]
    return torch.cat(norms).norm().item() if norms else 0.0


def row_norms(tensor: Tensor) -> Tensor:
    """The norm of each row, in float64; of a vector, the one norm it has."""
    # In float32 a whole 2000 x 2000 matrix comes out 8e-5 too small on a CPU; row by row it is right to 6e-10, and
    # twelve times as fast as in float64.
    dtype = torch.promote_types(tensor.dtype, torch.float32)
    rows = tensor.flatten(1) if tensor.dim() > 1 else tensor.reshape(1, -1)
    return torch.linalg.vector_norm(rows, dim=1, dtype=dtype).double()
