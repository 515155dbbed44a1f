"""C-CHAIN (Tang et al. 2025): a step should change what the network gives for other inputs as little as it can."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from supple.inputs import placed
from supple.learner import Learner
from supple.methods.base import Method, State, at_least, decay_rate, non_negative
from supple.methods.recent_inputs import keep_, kept, room_for
from supple.unchanged import evaluation_mode
from supple.units import Inputs

FIRST_STEP = 3  # the first whose running churn is not 0
WINDOW, WARM_UP, START = 50_000, 10_000, 50.0  # the authors' for DQN


@dataclass(frozen=True, kw_only=True)
class CChain(Method):
    """Adds the gradient of lambda * mean (f(x) - f_before(x))^2, the churn of the last step on other inputs x.

    f_before is the network before its last step, x are the latest ``num_examples`` inputs before this step's own. Both
    are run in evaluation mode. lambda = beta * running mean of |loss| / running mean of the churn, both with ``decay``
    from 0, from the third step on. The loop must show the loss: ``plasticity.see_loss(loss)`` before each step; a
    closure's is seen. ``strength`` is a fixed lambda instead, for which no loss is needed.

    The authors' x is a sample of the replay; the latest inputs and running means are our choices for any loop.
    ``reference``: as in their code for DQN the means are over the last 50,000 steps, and lambda is 50 for 10,000 steps.
    """

    name = "c_chain"
    reads_inputs = True
    beta: float = 0.01  # the authors' for DQN; 0.05 for PPO
    decay: float = 0.9999
    num_examples: int = 32  # the batch of DQN
    strength: float | None = None
    reference: bool = field(default=False, metadata={"later": True})

    def __post_init__(self) -> None:
        non_negative(self.beta, "CChain.beta is the weight of the churn, relative to the loss")
        decay_rate(self.decay, "CChain.decay is the decay of the running means")
        at_least(1, self.num_examples, "CChain.num_examples is how many inputs are compared on")
        if self.strength is not None:
            non_negative(self.strength, "CChain.strength is the fixed weight of the churn (lambda)")

    def init(self, learner: Learner) -> State:
        zero = torch.zeros((), dtype=torch.float64, device=learner.device)
        numbers = {name: zero.clone() for name in ("steps", "loss", "churn", "next.churn")}
        state: State = numbers | room_for(learner, self.num_examples)
        if self.reference:
            state |= {f"latest.{name}": zero.new_zeros(WINDOW) for name in ("loss", "churn")}
        for name, parameter in learner.own_parameters().items():
            state |= first_record(name, parameter.detach())
        return state

    def after_backward(self, learner: Learner, state: State) -> None:
        names, thetas, gradients = learner.trained()
        if not names:
            return
        for name, theta in learner.own_parameters().items():
            if f"before.{name}" not in state:  # it was frozen until now
                state |= first_record(name, theta.detach())
        inputs, is_filled = kept(learner, state, "CChain")
        with torch.enable_grad():
            churn = self.churn(learner, state, inputs, is_filled)
            pulls = list(torch.autograd.grad(churn, thetas, materialize_grads=True))
        with torch.no_grad():
            state["next.churn"].copy_(churn)
            learner.mean_over_ranks_(state["next.churn"], *pulls)
            weight = self.weight(state)
            for gradient, pull in zip(gradients, pulls, strict=True):
                gradient.add_(weight.to(pull.dtype) * pull)
            for name, theta in learner.own_parameters().items():
                state[f"next.before.{name}"].copy_(theta)

    def churn(self, learner: Learner, state: State, inputs: Inputs, is_filled: Tensor) -> Tensor:
        """The mean squared difference that the last step made."""
        before = {name: state[f"before.{name}"] for name in learner.own_parameters()}
        args, kwargs = placed(inputs, learner.model, learner.device)
        with evaluation_mode(learner.model):
            now = tensor_in(learner.forward_of(learner.model, inputs))
            with torch.no_grad():
                then = tensor_in(functional_call(learner.model, before, args, kwargs))
        # A GPT may flatten its positions. Other rows than those of examples in their order are refused.
        squares_B = (now - then).square().unflatten(0, (len(is_filled), -1)).flatten(1).mean(dim=1)
        return torch.where(is_filled, squares_B, 0.0).sum() / is_filled.sum().clamp(min=1)

    def weight(self, state: State) -> Tensor:
        """Lambda of this step."""
        if self.strength is not None:
            return torch.full_like(state["churn"], self.strength)
        weight = self.beta * state["loss"] / (state["churn"] + 1e-8)
        if self.reference:
            return torch.where(state["steps"] >= WARM_UP, weight, START)
        return torch.where(state["steps"] >= FIRST_STEP - 1, weight, 0.0)

    @torch.no_grad()
    def after_step(self, learner: Learner, state: State) -> None:
        loss, learner.seen_loss = learner.seen_loss, None  # that of the next step is another
        if loss is None and self.strength is None:
            raise RuntimeError(
                "CChain weighs the churn by the loss, which no hook sees. Call plasticity.see_loss(loss) before each "
                "optimizer.step() (learner.see_loss(loss) in a loop that calls the hooks itself), or give it a fixed "
                "weight: CChain(strength=1.0)."
            )
        if loss is not None:
            size = loss.abs().double().mean()
            learner.mean_over_ranks_(size)
            self.follow_(state, "loss", size)
        self.follow_(state, "churn", state["next.churn"])
        for name in learner.own_parameters():
            if f"before.{name}" in state:
                state[f"before.{name}"].copy_(state[f"next.before.{name}"])
        keep_(learner, state, "CChain")
        state["steps"] += 1

    def follow_(self, state: State, name: str, value: Tensor) -> None:
        """Have the mean of a number take this one in."""
        if not self.reference:
            state[name].lerp_(value, 1.0 - self.decay)
            return
        latest = state[f"latest.{name}"]
        latest.index_copy_(0, (state["steps"] % WINDOW).long()[None], value[None])
        state[name].copy_(latest.sum() / (state["steps"] + 1).clamp(max=WINDOW))


def first_record(name: str, theta: Tensor) -> State:
    """What is remembered of a parameter before its first step."""
    return {f"before.{name}": theta.clone(), f"next.before.{name}": theta.clone()}


def tensor_in(output: Any) -> Tensor:
    """The tensor among a network's outputs that is compared: the logits, or the first one."""
    if isinstance(output, Tensor):
        return output
    logits = getattr(output, "logits", None)
    members = output.values() if isinstance(output, dict) else output if isinstance(output, tuple | list) else ()
    found = logits if isinstance(logits, Tensor) else next((one for one in members if isinstance(one, Tensor)), None)
    if found is None:
        raise TypeError(f"CChain compares what a network gives, as tensors; got {type(output).__name__}.")
    return found
