"""Chain: several methods one after the other, as one."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from torch import nn

from supple.learner import Batch, Learner
from supple.methods.base import Method, State


@dataclass(frozen=True, kw_only=True)
class Chain(Method):
    """Calls every hook of the methods in their order. Put penalties before gates (UPGD), projections last.

    What reads gradients (ReGraMa, CPR) comes before penalties, TRAC before what writes weights inside a step. At most
    one of them may bring an activation of its own, and at most one renew units.
    """

    name = "chain"
    methods: tuple[Method, ...] = ()  # in this order; on the command line by name, with options by name

    def __post_init__(self) -> None:
        if any(isinstance(method, Chain) for method in self.methods):
            raise ValueError("Chain.methods are methods, not chains; write one chain of all of them.")
        renewing = [type(method).__name__ for method in self.methods if method.renews_units]
        if len(renewing) > 1:
            raise ValueError(f"{' and '.join(renewing)} both renew units, and neither would know what the other did.")
        swapping = [type(method).__name__ for method in self.methods if brings_activation(method)]
        if len(swapping) > 1:
            raise ValueError(f"{' and '.join(swapping)} each bring an activation of their own; chain one of them.")
        for at, method in enumerate(self.methods):
            if method.scales_steps:
                check_beside(type(method).__name__, self.methods[:at], self.methods[at + 1 :])

    @property
    def renews_units(self) -> bool:  # type: ignore[override]
        return any(method.renews_units for method in self.methods)

    @property
    def reads_data(self) -> bool:  # type: ignore[override]
        return any(method.reads_data for method in self.methods)

    @property
    def reads_inputs(self) -> bool:  # type: ignore[override]
        return any(method.reads_inputs for method in self.methods)

    @property
    def is_elementwise(self) -> bool:  # type: ignore[override]
        return all(method.is_elementwise or not method.acts_in() for method in self.methods)

    def activation(self) -> nn.Module:
        own = (method for method in self.methods if brings_activation(method))
        return next(own, Method()).activation()

    def init(self, learner: Learner) -> State:
        states = (method.init(learner) for method in self.methods)
        return {f"{i}.{key}": tensor for i, state in enumerate(states) for key, tensor in state.items()}

    def reach(self, learner: Learner) -> tuple[list[str], list[str]]:
        reached = [method.reach(learner) for method in self.methods]
        return [name for served, _ in reached for name in served], [reason for _, left in reached for reason in left]

    def after_backward(self, learner: Learner, state: State) -> None:
        self._each(state, lambda method, own: method.after_backward(learner, own))

    def after_step(self, learner: Learner, state: State) -> None:
        self._each(state, lambda method, own: method.after_step(learner, own))

    def end_stage(self, learner: Learner, state: State, data: Iterable[Batch]) -> None:
        self._each(state, lambda method, own: method.end_stage(learner, own, data))

    def begin_stage(self, learner: Learner, state: State, data: Iterable[Batch], stage: int) -> None:
        self._each(state, lambda method, own: method.begin_stage(learner, own, data, stage))

    @contextlib.contextmanager
    def evaluation(self, learner: Learner, state: State) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            self._each(state, lambda method, own: stack.enter_context(method.evaluation(learner, own)))
            yield

    def _each(self, state: State, act: Callable[[Method, State], object]) -> None:
        for i, method in enumerate(self.methods):
            own = {key.removeprefix(f"{i}."): value for key, value in state.items() if key.startswith(f"{i}.")}
            known = set(own)
            act(method, own)
            for key in known.difference(own):
                del state[f"{i}.{key}"]
            state |= {f"{i}.{key}": tensor for key, tensor in own.items()}  # some may have come later


def brings_activation(method: Method) -> bool:
    """Whether the network is built with another activation than ReLU for it."""
    return type(method.activation()) is not nn.ReLU


def check_beside(who: str, before: tuple[Method, ...], after: tuple[Method, ...]) -> None:
    """Refuse what a method that scales the optimizer's steps would scale with them, or what corrects them unscaled."""
    for method in (*before, *after):
        if getattr(method, "moments", None) == "per_entry":
            name = type(method).__name__
            raise ValueError(
                f"{who} scales the optimizer's steps, and {name} corrects those of renewed units without that; "
                f'use {name}(moments="clear").'
            )
    for method in before:
        only_writes = method.acts_in("after_step") and not method.acts_in("after_backward")
        if only_writes or method.renews_units or getattr(method, "every", None):
            raise ValueError(
                f"{who} would scale what {type(method).__name__} writes, as if it were the optimizer's step; "
                f"put {who} before it."
            )
