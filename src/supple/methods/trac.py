"""TRAC (Muppidi et al. 2024): how far to go from the initial weights is learned, with no parameter to tune."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from supple.learner import Learner
from supple.methods.base import Method, State

NUM_LEARNERS = 6  # with betas .9, .99, ...
EPSILON = 1e-8
NUM_TERMS = 120  # of erfi's series, exact to 64 bits up to 6
ERFI_OF_ROOT_HALF = 0.9534382692512611
LARGEST = 26.0  # exp of its square is still a number


@dataclass(frozen=True, kw_only=True)
class TRAC(Method):
    """theta = theta_0 + max(S, 0) * d, d the sum of the optimizer's steps, S tuned by six online learners.

    After each step, with h = <d, gradient> before it: v <- beta^2 v + h^2; sigma <- beta sigma - h;
    S = sum of s_0 erfi(sigma / sqrt(2 v)) / erfi(1 / sqrt(2)) over the betas. That d is kept is our choice:
    ``reference``, as in the authors' code, reads it off the weights, so that once S is not above 0 the network stays at
    its start for ever.

    What others write to the weights between two steps, as a reset does, stays, our choice: entries that were written
    have that for their theta_0, and their d starts over. In the reference form it becomes part of d.
    """

    name = "trac"
    follows = ("after_backward",)
    scales_steps = True
    scale: float = 1e-8  # s_0
    reference: bool = False

    def __post_init__(self) -> None:
        if not self.scale > 0.0:
            raise ValueError(f"TRAC.scale is the first distance from the start, above 0; got {self.scale}.")

    def init(self, learner: Learner) -> State:
        device = learner.device
        state: State = {
            "variance": torch.zeros(NUM_LEARNERS, dtype=torch.float64, device=device),
            "sigma": torch.full((NUM_LEARNERS,), EPSILON, dtype=torch.float64, device=device),
            "distance": torch.zeros((), dtype=torch.float64, device=device),
        }
        for name in learner.own_parameters():
            state |= first_record(learner, name)
        return state

    @torch.no_grad()
    def after_backward(self, learner: Learner, state: State) -> None:
        for name, theta in learner.own_parameters().items():
            if f"sum.{name}" not in state:  # it was frozen until now
                state |= first_record(learner, name)
            state[f"next.old.{name}"].copy_(theta)

    @torch.no_grad()
    def after_step(self, learner: Learner, state: State) -> None:
        names, thetas, gradients = learner.trained()
        if not names:
            return
        keys = ("sum", "next.old", "start", "written")
        sums, olds, starts, writtens = ([state[f"{key}.{name}"] for name in names] for key in keys)
        for total, old, start, written in zip(sums, olds, starts, writtens, strict=True):
            if self.reference:
                total.copy_((old - start) / (state["distance"] + EPSILON).to(old.dtype))
            else:
                is_moved = old != written
                start.copy_(torch.where(is_moved, old, start))
                total.masked_fill_(is_moved, 0.0)
        products = [(total.double() * gradient).sum() for total, gradient in zip(sums, gradients, strict=True)]
        self.learn_(state, torch.stack(products).sum())
        reach = state["distance"].clamp(min=0.0)
        for total, theta, old, start, written in zip(sums, thetas, olds, starts, writtens, strict=True):
            total.add_(theta - old)
            theta.copy_(start + reach.to(theta.dtype) * total)
            written.copy_(theta)

    def learn_(self, state: State, product: Tensor) -> None:
        """One step of the six learners of the distance."""
        powers = torch.arange(1, NUM_LEARNERS + 1, dtype=torch.float64, device=product.device)
        betas = 1.0 - 10.0**-powers
        variance, sigma = state["variance"], state["sigma"]
        variance.copy_(betas.square() * variance + product.square())
        sigma.copy_(betas * sigma - product)
        growth = erfi(sigma / ((2.0 * variance).sqrt() + EPSILON)) / ERFI_OF_ROOT_HALF
        state["distance"].copy_(self.scale * growth.sum())


def first_record(learner: Learner, name: str) -> State:
    """What is remembered of a parameter before its first step."""
    (initial,) = learner.initial_values([name])
    copies = {f"{key}.{name}": initial.clone() for key in ("next.old", "start", "written")}
    return {f"sum.{name}": torch.zeros_like(initial), **copies}


def erfi(x: Tensor) -> Tensor:
    """The imaginary error function of a vector in float64, by its series up to 6, asymptotically above."""
    x = x.clamp(-LARGEST, LARGEST)
    small = x.clamp(-6.0, 6.0)
    k = torch.arange(NUM_TERMS, dtype=torch.float64, device=x.device)
    logs = k * small.abs().clamp(min=1e-300).log()[:, None] * 2.0 - torch.lgamma(k + 1.0)
    series = 2.0 / math.sqrt(math.pi) * small * (logs.exp() / (2.0 * k + 1.0)).sum(dim=1)
    large = x.abs().clamp(min=6.0)
    inverse, term, total = 0.5 / large.square(), torch.ones_like(large), torch.ones_like(large)
    for order in range(1, 16):
        term = term * (2 * order - 1) * inverse
        total = total + term
    tail = large.square().exp() / (large * math.sqrt(math.pi)) * total
    return torch.where(x.abs() <= 6.0, series, tail.copysign(x))
