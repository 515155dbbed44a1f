"""L2-ER (Prakash et al. 2026): L2, and now and then a step that raises the effective rank of the features."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from supple.activations import is_activation
from supple.inputs import mapped
from supple.learner import Learner
from supple.methods.base import Method, State, at_least, non_negative
from supple.methods.recent_inputs import keep_, kept, room_for
from supple.unchanged import check_copies, eager_code, twin_of, undisturbed

EPSILON = 1e-8
SMALLEST = 1e-6  # of the largest singular value; smaller ones are rounding errors


@dataclass(frozen=True, kw_only=True)
class L2ER(Method):
    """Every ``every`` steps theta <- theta + rank_rate * gradient of the mean effective rank of all hidden features.

    The effective rank is exp of the entropy of the singular values' shares, of the matrix of examples by units; maps
    are averaged over space. The examples are the latest ``num_examples``: the authors' last ``every`` batches if that
    is ``every`` times the batch size. This step is plain, after the optimizer's own, which never sees it. L2 of
    ``strength`` is added to every gradient. ``last_layers`` takes the last activations alone, the authors' choice of
    2 in a ResNet.

    The extra forward is of a copy of the network, so that running statistics stay. ``reference``: as in the authors'
    code it moves them, too. Maps averaged over space are our guess.

    Its period is a branch on a value, so that steps with it cannot be captured in a CUDA graph.
    """

    name = "l2_er"
    counts_steps = True
    looks_at_values = True
    reads_inputs = True
    strength: float = 1e-4  # of L2
    rank_rate: float = 1e-3  # with strength in the middle of the authors' grids, which they tune for each problem
    every: int = 12  # both as on Continual ImageNet, in batches of 100
    num_examples: int = 1200
    last_layers: int | None = None  # None: all
    reference: bool = field(default=False, metadata={"later": True})

    def __post_init__(self) -> None:
        non_negative(self.strength, "L2ER.strength is the weight of L2")
        non_negative(self.rank_rate, "L2ER.rank_rate is the learning rate of the effective rank")
        at_least(2, self.num_examples, "L2ER.num_examples is a number of examples")
        at_least(1, self.last_layers, "L2ER.last_layers is a number of activations")

    def init(self, learner: Learner) -> State:
        if not any(map(is_activation, learner.model.modules())):
            raise ValueError(
                "L2ER raises the rank of what activations give, and this network has none as modules. "
                "Use convert(model, torch.nn.ReLU()) first, which makes modules of calls."
            )
        check_copies(learner.model)
        steps = torch.zeros((), dtype=torch.int64, device=learner.device)
        return {"steps": steps, **room_for(learner, self.num_examples)}

    @torch.no_grad()
    def after_backward(self, learner: Learner, state: State) -> None:
        _, thetas, gradients = learner.penalised()
        if gradients:  # torch's loops over tensors refuse to be empty
            torch._foreach_add_(gradients, thetas, alpha=self.strength)

    def after_step(self, learner: Learner, state: State) -> None:
        keep_(learner, state, "L2ER")
        state["steps"] += 1
        own = learner.own_parameters()
        if int(state["steps"]) % self.every or not self.rank_rate or not own:  # all is frozen
            return
        gradients = self.rank_gradients(learner, state, list(own))
        learner.mean_over_ranks_(*gradients)
        with torch.no_grad():
            torch._foreach_add_(list(own.values()), gradients, alpha=self.rank_rate)

    def rank_gradients(self, learner: Learner, state: State, names: list[str]) -> list[Tensor]:
        """Of the mean effective rank over the layers, for the parameters of these names."""
        rooms, is_filled = kept(learner, state, "L2ER")
        inputs = mapped(lambda x: x[is_filled], rooms)
        twin = twin_of(learner.model).train()
        features: list[Tensor] = []
        for module in filter(is_activation, twin.modules()):
            module.register_forward_hook(lambda module, args, output: features.append(output))
        with undisturbed(), eager_code(), torch.enable_grad():
            learner.forward_of(twin, inputs)
            if self.reference:
                for own, moved in zip(learner.model.buffers(), twin.buffers(), strict=True):
                    own.copy_(moved)
            chosen = features[-self.last_layers :] if self.last_layers else features
            ranks = [effective_rank(as_matrix(feature)) for feature in chosen]
            mean_rank = torch.stack(ranks).mean()
            parameters = [twin.get_parameter(name) for name in names]
            if not mean_rank.requires_grad:  # nothing fires
                return [torch.zeros_like(parameter) for parameter in parameters]
            return list(torch.autograd.grad(mean_rank, parameters, materialize_grads=True))


def as_matrix(feature: Tensor) -> Tensor:
    """Examples by units: maps averaged over space, tokens as examples."""
    if feature.dim() > 3:
        return feature.flatten(2).mean(dim=2)
    return feature.flatten(0, -2)


def effective_rank(matrix: Tensor) -> Tensor:
    """exp of the entropy of its singular values' shares; 0, without a gradient, of a matrix of zeros."""
    values = torch.linalg.svdvals(matrix if matrix.dtype == torch.float64 else matrix.float())
    if not values[0] > 0:
        return values.new_zeros(())
    values = values[values > SMALLEST * values[0]]
    shares = values / values.sum().clamp(min=EPSILON)
    return torch.exp(-(shares * (shares + EPSILON).log()).sum())
