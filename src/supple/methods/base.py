"""Method: what may be done against plasticity loss, and when (hooks of a training loop, all no-ops by default)."""

import contextlib
import functools
import math
from abc import ABC
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from supple.fields import Checked
from supple.learner import Batch, Learner

State = dict[str, Tensor]
IN_A_STEP, BETWEEN_STAGES = ("after_backward", "after_step"), ("end_stage", "begin_stage")
HOOKS = IN_A_STEP + BETWEEN_STAGES


class Method(Checked, ABC):
    """A frozen dataclass in every subclass; its fields are its hyperparameters, its memory is the ``state`` dict.

    A method is stateless, so one piece of code checkpoints, resumes and moves them all. The two hooks inside a step
    work on tensors only (no ``.item()``, no branch on a value), so that a whole step can be captured in a CUDA graph.
    In these two every gradient is that of what is minimised, also if the optimizer has maximize=True.
    """

    name: ClassVar[str]
    follows: ClassVar[tuple[str, ...]] = ()  # hooks in which it only follows the training
    scales_steps: ClassVar[bool] = False  # moves weights by a multiple of the optimizer's steps
    renews_units: ClassVar[bool] = False  # two methods that do cannot work side by side
    reads_data: ClassVar[bool] = False  # runs the network on the batches of a stage
    reads_inputs: ClassVar[bool] = False  # sees what the network is trained on
    looks_at_values: ClassVar[bool] = False  # inside a step, so that no CUDA graph can hold it
    counts_steps: ClassVar[bool] = False  # has a field ``every`` that it obeys by itself, in after_step
    is_elementwise: ClassVar[bool] = False  # looks at each entry of a parameter alone, so that shards will do

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for hook in filter(vars(cls).__contains__, HOOKS):
            own = returning_nothing(vars(cls)[hook])
            setattr(cls, hook, minimising(own) if hook in IN_A_STEP else own)
        if "init" in vars(cls):
            setattr(cls, "init", returning_state(vars(cls)["init"]))  # noqa: B010

    def __new__(cls, *args: object, **values: Any) -> Self:
        method = super().__new__(cls, *args, **values)  # which refuses other types
        at_least(1, values.get("every"), f"{cls.__name__}.every is a number of optimizer steps between two acts")
        return method

    @classmethod
    def acts_in(cls, *hooks: str) -> bool:
        """Whether the method does something of its own in one of these hooks, or in any."""
        own = set(hooks or HOOKS).difference(cls.follows)
        return any(getattr(cls, hook) is not getattr(Method, hook) for hook in own)

    def activation(self) -> nn.Module:
        """What the network is built with, or converted to; called once per activation site."""
        return nn.ReLU()

    def init(self, learner: Learner) -> State:
        """What the method must remember: tensors, updated in place."""
        return {}

    def after_backward(self, learner: Learner, state: State) -> None:
        """May edit gradients, before clipping. What it learns is committed in ``after_step``: a step may be skipped."""

    def after_step(self, learner: Learner, state: State) -> None:
        """After each optimizer step."""

    def end_stage(self, learner: Learner, state: State, data: Iterable[Batch]) -> None:
        """With the data of the stage just finished; not after the last stage."""

    def begin_stage(self, learner: Learner, state: State, data: Iterable[Batch], stage: int) -> None:
        """Before stage >= 1, with its data, after the optimizer was made new (if it is)."""

    def evaluation(self, learner: Learner, state: State) -> AbstractContextManager[None]:
        """While open, the model is the network to evaluate, for methods that train another one."""
        return contextlib.nullcontext()

    def reach(self, learner: Learner) -> tuple[list[str], list[str]]:
        """The names of the layers that the method acts on, and a sentence for each that it leaves alone."""
        own, served, left = {id(parameter) for parameter in learner.own_parameters().values()}, [], []
        for name, module in learner.model.named_modules():
            parameters = list(module.parameters(recurse=False))
            if any(id(parameter) in own for parameter in parameters):
                served.append(name or "the model itself")
            elif parameters:
                frozen = not any(parameter.requires_grad for parameter in parameters)
                left.append(f"'{name}': {'it is frozen' if frozen else 'the optimizer does not train it'}")
        return served, left


def minimising(hook: Callable[..., None]) -> Callable[..., None]:
    """The hook of a method, in which the gradients of what is maximised are negated: no method needs to know."""

    @functools.wraps(hook)
    def call(self: Method, learner: Learner, *args: Any, **named: Any) -> None:
        if learner.is_minimising or not maximising(learner.optimizer):
            hook(self, learner, *args, **named)
            return
        negate_maximised_(learner.optimizer)
        learner.is_minimising = True  # a chain calls hooks in its own
        try:
            hook(self, learner, *args, **named)
        finally:
            negate_maximised_(learner.optimizer)
            learner.is_minimising = False

    return call


def maximising(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    """The parameters that the optimizer trains with maximize=True."""
    return [parameter for group in optimizer.param_groups if group.get("maximize") for parameter in group["params"]]


def learning_rates(optimizer: torch.optim.Optimizer) -> dict[int, float]:
    """The learning rate of each parameter, by its id."""
    return {id(parameter): group["lr"] for group in optimizer.param_groups for parameter in group["params"]}


@torch.no_grad()
def negate_maximised_(optimizer: torch.optim.Optimizer) -> None:
    """Negate the gradients along which the optimizer goes up."""
    held = [parameter.grad for parameter in maximising(optimizer) if parameter.grad is not None]
    if held:  # torch's loops over tensors refuse to be empty
        torch._foreach_neg_(held)


def returning_nothing(hook: Callable[..., object]) -> Callable[..., None]:
    """The hook of a method; TypeError if it returns a state."""

    @functools.wraps(hook)
    def call(self: Method, learner: Learner, *args: Any, **named: Any) -> None:
        found = hook(self, learner, *args, **named)
        if isinstance(found, dict) and not any(found is given for given in (*args, *named.values())):
            name = f"{type(self).__name__}.{hook.__name__}"
            raise TypeError(f"{name} must return nothing: the state is changed in place; got a dict, which is lost.")

    return call


def returning_state(init: Callable[..., State]) -> Callable[..., State]:
    """The method's init; TypeError if it returns no dict."""

    @functools.wraps(init)
    def call(self: Method, learner: Learner) -> State:
        if not isinstance(state := init(self, learner), dict):
            raise TypeError(f"{type(self).__name__}.init must return the state, a dict of tensors; got {state!r}.")
        return state

    return call


def period_of(method: Method) -> int | None:
    """Every how many optimizer steps a method acts that else acts between stages."""
    return None if method.counts_steps else getattr(method, "every", None)


def reads_recent(method: Method) -> bool:
    """Whether the method acts every so many steps, on the latest inputs."""
    return period_of(method) is not None and hasattr(method, "num_examples")


def non_negative(value: float, what: str) -> float:
    """The value if it is a finite number of at least 0, or an error that says what it stands for."""
    if not 0.0 <= value < math.inf:
        raise ValueError(f"{what}, a finite number of at least 0; got {value}.")
    return value


def decay_rate(value: float, what: str) -> float:
    """The value if it can be the decay of a running mean, or an error that says what it stands for."""
    if not 0.0 < value < 1.0:
        raise ValueError(f"{what}, between 0 and 1 and neither of them; got {value}.")
    return value


def at_least(least: float, value: float | None, what: str) -> None:
    """Refuse a smaller value, if there is one, and say what it stands for."""
    if value is not None and value < least:
        raise ValueError(f"{what}, at least {least}; got {value}.")
