"""Shrink & Perturb (Ash & Adams 2020) in the paper's form with one parameter: part of the way back to the start."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from supple import functional as SF
from supple.learner import Batch, Learner, forget_
from supple.methods.base import Method, State
from supple.warn import warn


@dataclass(frozen=True, kw_only=True)
class ShrinkPerturb(Method):
    """theta <- (1 - shrink) * theta + shrink * theta_0 between stages, for all parameters, norms included.

    theta_0 is the run's own start, not a fresh draw. Buffers (running statistics) stay, and so does what the optimizer
    remembers, as in the paper's runs with one optimizer, unless ``clear_moments``: with Adam that is the better choice
    in most cases (docs/choices.md). Elsewhere lambda is the share that is kept, or the noise is fresh: numbers do not
    carry over.
    """

    name = "shrink_perturb"
    shrink: float = 0.8  # lambda; the paper's best on random-label MNIST with Adam at 1e-3
    clear_moments: bool = field(default=False, metadata={"later": True})
    every: int | None = field(default=None, metadata={"later": True})  # optimizer steps; None: between stages

    def __post_init__(self) -> None:
        SF.probability(self.shrink, "ShrinkPerturb.shrink is the share of the way back to the initial weights (lambda)")

    @torch.no_grad()
    def begin_stage(self, learner: Learner, state: State, data: Iterable[Batch], stage: int) -> None:
        own = learner.own_parameters()
        if own:  # torch's loops over tensors refuse to be empty
            torch._foreach_lerp_(list(own.values()), learner.initial_values(own), self.shrink)
        if self.clear_moments:
            forget_(learner.optimizer, own.values())
        elif learner.is_advised and self.is_remembered(learner):
            learner.is_advised = False
            warn(
                f"ShrinkPerturb keeps what {type(learner.optimizer).__name__} remembers of the weights as they were. "
                "ShrinkPerturb(clear_moments=True), or a new optimizer for each stage, mostly learns faster."
            )

    def is_remembered(self, learner: Learner) -> bool:
        """Whether the optimizer has moments of the weights."""
        memories = (learner.optimizer.state.get(p, {}) for p in learner.own_parameters().values())
        return any(isinstance(part, Tensor) and part.dim() > 0 for memory in memories for part in memory.values())
