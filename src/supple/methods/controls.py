"""Controls: what an optimizer alone can do against plasticity loss, and comparisons forget."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from supple.learner import Batch, Learner, forget_
from supple.methods.base import Method, State, learning_rates, non_negative


@dataclass(frozen=True, kw_only=True)
class FreshOptimizer(Method):
    """Has the optimizer forget all it remembers before each stage; weights stay.

    It does what making a new optimizer does, without making one. For methods that empty the optimizer besides (FIRE,
    FullReset) it is the part that any loop could have.
    """

    name = "fresh_optimizer"
    every: int | None = None  # optimizer steps; None: between stages

    @torch.no_grad()
    def begin_stage(self, learner: Learner, state: State, data: Iterable[Batch], stage: int) -> None:
        forget_(learner.optimizer, learner.own_parameters().values())


@dataclass(frozen=True, kw_only=True)
class DecoupledDecay(Method):
    """AdamW's weight decay beside any optimizer: theta <- its step - lr * strength * theta before the step.

    The moments never see it, unlike L2. Biases and norms decay, too, as in torch.
    """

    name = "decoupled_decay"
    follows = ("after_backward",)
    strength: float = 1e-2  # torch's AdamW

    def __post_init__(self) -> None:
        non_negative(self.strength, "DecoupledDecay.strength is the weight of the decay")

    def init(self, learner: Learner) -> State:
        return {f"next.old.{name}": theta.detach().clone() for name, theta in learner.own_parameters().items()}

    @torch.no_grad()
    def after_backward(self, learner: Learner, state: State) -> None:
        for name, theta in zip(*learner.penalised()[:2], strict=True):
            if f"next.old.{name}" not in state:  # it was frozen until now
                state[f"next.old.{name}"] = theta.detach().clone()
            state[f"next.old.{name}"].copy_(theta)

    @torch.no_grad()
    def after_step(self, learner: Learner, state: State) -> None:
        rates = learning_rates(learner.optimizer)
        for name, theta in zip(*learner.penalised()[:2], strict=True):
            theta.sub_(state[f"next.old.{name}"] * (rates[id(theta)] * self.strength))


@dataclass(frozen=True, kw_only=True)
class EqualBetas(Method):
    """Adam whose two betas are one number, so that no step is longer than its learning rate allows.

    With the usual 0.9 and 0.999 a gradient that grows at a change of the data makes steps many times too long before
    the mean of its square has followed (Dohare et al. 2024). The optimizer keeps them after plasticity.detach().
    """

    name = "equal_betas"
    beta: float = 0.99  # the authors' in reinforcement learning

    def __post_init__(self) -> None:
        if not 0.0 <= self.beta < 1.0:
            raise ValueError(f"EqualBetas.beta is the decay of both of Adam's means, in [0, 1); got {self.beta}.")

    def init(self, learner: Learner) -> State:
        if not all("betas" in group for group in learner.optimizer.param_groups):
            raise ValueError(f"EqualBetas sets the betas of Adam; {type(learner.optimizer).__name__} has none.")
        return {}

    def after_backward(self, learner: Learner, state: State) -> None:
        for group in learner.optimizer.param_groups:  # at each step: the optimizer may be a new one
            group["betas"] = (self.beta, self.beta)
