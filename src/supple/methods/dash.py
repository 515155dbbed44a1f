"""DASH, direction-aware shrinking (Shin et al. 2024): shrink what points away from where the coming stage pulls."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple import functional as SF
from supple.learner import Batch, Learner
from supple.methods.base import Method, State, maximising
from supple.methods.matrices import warn_of_others
from supple.random import undisturbed_reading
from supple.unchanged import check_copies, twin_of


@dataclass(frozen=True, kw_only=True)
class DASH(Method):
    """Before a stage, scales each weight vector by its cosine with the stage's descent direction, at least ``floor``.

    The direction is a moving average of the negative gradients over one pass, G <- (1 - alpha) G + alpha (-grad), taken
    on a copy of the network in training mode: the network itself, its running statistics included, stays as it is until
    the end. The copy's masks, if its activations draw any, come from torch's default generator, which is then set back,
    as are those that a shuffled DataLoader draws from.

    A vector is a row of a linear layer, a kernel of a convolution (one output, one input channel), or a whole bias; the
    output layer counts, norms do not. A kernel of one entry (1x1) has cosine 1 or -1, so it stays or goes to the floor.
    With ``every`` the direction is that of the training's own steps, and no data are read.

    Other weights stay as they are (embeddings, attention's joint projection, recurrent layers, what a parametrization
    such as a weight norm computes), and a warning names them.
    """

    name = "dash"
    follows = ("after_step",)
    reads_data = True
    alpha: float = 0.1  # share of the newest batch; 0.1 and 0.3: the paper's choice in all of "limited access"
    floor: float = 0.3  # lambda, the smallest factor
    every: int | None = field(default=None, metadata={"later": True})  # optimizer steps; None: between stages

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha <= 1.0:
            raise ValueError(
                f"DASH.alpha is the share of the newest batch in the average of gradients, in (0, 1]; got {self.alpha}."
            )
        SF.probability(self.floor, "DASH.floor is the smallest factor a weight is scaled by (lambda)")

    def init(self, learner: Learner) -> State:
        warn_of_others(learner, shrinkable(learner).values(), "DASH", "shrinks")
        if self.every is None:
            check_copies(learner.model)
            return {}
        theirs = weights_and_biases(learner.model)  # of frozen layers, too: they may thaw
        held = ((name, tensor) for name, tensor in learner.model.named_parameters() if id(tensor) in theirs)
        return {f"direction.{name}": torch.zeros_like(tensor) for name, tensor in held}

    def reach(self, learner: Learner) -> tuple[list[str], list[str]]:
        shrunk = shrinkable(learner)
        left = [name for name in learner.own_parameters() if name not in shrunk]
        return list(shrunk), [f"'{name}': not the weight of a linear or convolutional layer" for name in left]

    @torch.no_grad()
    def after_step(self, learner: Learner, state: State) -> None:
        for name, tensor in shrinkable(learner).items() if self.every is not None else ():
            if f"direction.{name}" not in state:  # it came later
                state[f"direction.{name}"] = torch.zeros_like(tensor)
            if tensor.grad is not None:
                state[f"direction.{name}"].lerp_(-tensor.grad, self.alpha)

    def begin_stage(self, learner: Learner, state: State, data: Iterable[Batch], stage: int) -> None:
        if not shrinkable(learner):
            return
        if self.every is not None:
            directions = {name: state[f"direction.{name}"] for name in shrinkable(learner)}
        else:
            with undisturbed_reading(data, learner.device):
                directions = self.descent_directions(learner, data)
            learner.mean_over_ranks_(*directions.values())
        with torch.no_grad():
            for name, tensor in shrinkable(learner).items():
                tensor.mul_(alignment(directions[name], tensor).clamp_(self.floor, 1.0))

    def descent_directions(self, learner: Learner, data: Iterable[Batch]) -> dict[str, Tensor]:
        """G of every tensor that can be shrunk, from one pass over the data."""
        twin = twin_of(learner.model).train()
        tensors = {name: twin.get_parameter(name) for name in shrinkable(learner)}
        directions = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
        rising = set(map(id, maximising(learner.optimizer)))
        signs = [1.0 if id(own) in rising else -1.0 for own in shrinkable(learner).values()]
        num_batches = 0
        for batch in data:
            loss = learner.loss_of(twin, batch)
            gradients = torch.autograd.grad(loss, list(tensors.values()), materialize_grads=True)
            torch._foreach_lerp_(list(directions.values()), torch._foreach_mul(gradients, signs), self.alpha)
            num_batches += 1
        if not num_batches:
            raise ValueError(
                "DASH.begin_stage needs the batches of the coming stage and got none; "
                "pass a list or a DataLoader, not a generator that is used up."
            )
        return directions


def shrinkable(learner: Learner) -> dict[str, nn.Parameter]:
    """Weights and biases of all linear and convolutional layers that the learner's optimizer trains, by name."""
    theirs = weights_and_biases(learner.model)
    return {name: p for name, p in learner.own_parameters().items() if id(p) in theirs}


def weights_and_biases(model: nn.Module) -> set[int]:
    """The ids of the parameters of all linear and convolutional layers."""
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d)]
    return {id(tensor) for layer in layers for tensor in (layer.weight, layer.bias)}


def alignment(direction: Tensor, tensor: Tensor) -> Tensor:
    """The cosine between the two per weight vector, in a shape that scales the tensor; 0 where one of them is 0."""
    # A network that has converged has tiny gradients, and their scale must not matter: in float64 their squares are
    # still numbers, and the smallest eps there is leaves them alone.
    direction, weights, eps = direction.double(), tensor.double(), torch.finfo(torch.float64).tiny
    if tensor.dim() <= 2:
        return F.cosine_similarity(direction, weights, dim=-1, eps=eps).unsqueeze(-1).to(tensor.dtype)
    cosine_OI = F.cosine_similarity(direction.flatten(2), weights.flatten(2), dim=2, eps=eps)
    return cosine_OI.view(*cosine_OI.shape, *[1] * (tensor.dim() - 2)).to(tensor.dtype)
