"""Metrics of a loss's derivatives: how alike the gradients of single samples are, and how sharp the loss is.

Both look at the network in evaluation mode and leave it, its gradients and all random streams as they were.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from supple.metrics.base import Metric, at_least_one
from supple.metrics.observe import Observation, undisturbed
from supple.metrics.rank import entropy_rank

Loss = Callable[[Tensor, Tensor], Tensor]
COLLINEAR = 0.9  # a cosine beyond which two gradients point along one line


@dataclass(frozen=True, kw_only=True)
class GradientKernel(Metric):
    """``gradient_cosine``, ``gradient_kernel_rank`` and ``gradient_collinear`` of the samples' own gradients."""

    name = "gradient_kernel"
    watched = False
    needs_task = True
    num_samples: int = 64  # of the task; their gradients are held at once, each as large as the network

    def __post_init__(self) -> None:
        if self.num_samples < 2:
            raise ValueError(f"GradientKernel.num_samples must be at least 2; got {self.num_samples}.")

    def measure(self, observation: Observation) -> dict[str, float]:
        if (task := observation.task) is None or len(task.inputs) < 2:
            return {}
        first = slice(self.num_samples)
        return gradient_kernel(observation.model, task.inputs[first], task.targets[first], loss=task.loss)


def gradient_kernel(model: nn.Module, inputs: Tensor, targets: Tensor, *, loss: Loss) -> dict[str, float]:
    """Return what the cosines C_ij between the gradients of samples i and j say (Lyle et al. 2023).

    ``gradient_cosine`` is their mean over i != j, ``gradient_collinear`` the share with |C_ij| > 0.9, and
    ``gradient_kernel_rank`` the entropy rank of C. A sample without gradient has a row of zeros.
    """
    if len(inputs) < 2:
        raise ValueError(f"gradient_kernel compares samples, at least 2; got {len(inputs)}.")
    with differentiated(model) as parameters:
        rows = [
            flat(torch.autograd.grad(loss(model(x), y), parameters, materialize_grads=True))
            for x, y in zip(inputs.split(1), targets.split(1), strict=True)
        ]
    gradients_NP = torch.stack(rows).to(torch.promote_types(rows[0].dtype, torch.float32))
    # In float32 the squares of a well learned sample's gradient are 0. One by one: each is copied in float64.
    norms_N = torch.stack([torch.linalg.vector_norm(row, dtype=torch.float64) for row in rows]).to(gradients_NP.dtype)
    unit_NP = gradients_NP / torch.where(norms_N > 0, norms_N, 1.0)[:, None]
    cosines_NN = (unit_NP @ unit_NP.T).double().cpu()
    off_diagonal = cosines_NN[~torch.eye(len(cosines_NN), dtype=torch.bool)]
    finite = bool(cosines_NN.isfinite().all())
    values = torch.linalg.eigvalsh(cosines_NN).clamp(min=0.0) if finite else cosines_NN.diagonal()
    collinear = torch.where(off_diagonal.isfinite(), (off_diagonal.abs() > COLLINEAR).double(), torch.nan)
    return {
        "gradient_cosine": off_diagonal.mean().item(),
        "gradient_kernel_rank": entropy_rank(values),
        "gradient_collinear": collinear.mean().item(),
    }


@dataclass(frozen=True, kw_only=True)
class Curvature(Metric):
    """``curvature``: the eigenvalue of largest size of the loss's Hessian, with its sign."""

    name = "curvature"
    watched = False
    needs_task = True
    num_samples: int = 256  # of the task
    iterations: int = 20

    def __post_init__(self) -> None:
        at_least_one(self, "num_samples", "iterations")

    def measure(self, observation: Observation) -> dict[str, float]:
        if (task := observation.task) is None:
            return {}
        inputs, targets = task.inputs[: self.num_samples], task.targets[: self.num_samples]
        value = curvature(observation.model, inputs, targets, loss=task.loss, iterations=self.iterations)
        return {"curvature": value}


def curvature(
    model: nn.Module, inputs: Tensor, targets: Tensor, *, loss: Loss, iterations: int = 20, seed: int = 0
) -> float:
    """Return the eigenvalue of largest size of the loss's Hessian, with its sign, by power iteration.

    v is drawn from a normal law by the seed; each iteration is v <- Hv / |Hv|, Hv by a second backward. The result is
    v'Hv of the last one, at most as large as the eigenvalue. It is 0 if Hv is.
    """
    with differentiated(model) as parameters:
        value = loss(model(inputs), targets)
        gradient = flat(torch.autograd.grad(value, parameters, create_graph=True, materialize_grads=True)).double()
        drawn = torch.randn(len(gradient), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        direction, rayleigh = (drawn / drawn.norm()).to(gradient.device), torch.zeros(())
        for _ in range(iterations if gradient.requires_grad else 0):  # the gradient of a linear loss is constant
            product = torch.autograd.grad(gradient @ direction, parameters, retain_graph=True, materialize_grads=True)
            stretched = flat(product).double()
            rayleigh = direction @ stretched
            direction = stretched / stretched.norm().clamp(min=torch.finfo(torch.float64).tiny)
    return rayleigh.item()


@contextlib.contextmanager
def differentiated(model: nn.Module) -> Iterator[list[nn.Parameter]]:
    """While open, the model is in evaluation mode with gradients; the parameters that it trains."""
    with undisturbed(model), torch.enable_grad():
        yield [p for p in model.parameters() if p.requires_grad]


def flat(tensors: tuple[Tensor, ...]) -> Tensor:
    return torch.cat([tensor.flatten() for tensor in tensors])
