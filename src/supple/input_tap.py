"""Input tap: what a model is trained on, read from the arguments of its forwards."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from supple.units import Inputs, arguments_of


def inputs_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Inputs | None:
    """A forward's arguments as a Learner takes them: a tensor, a tuple of several, or a dict by name; else None."""
    if args and kwargs:
        return None
    if kwargs:
        return dict(kwargs) if any(isinstance(value, Tensor) for value in kwargs.values()) else None
    if not args or not all(isinstance(argument, Tensor) for argument in args):
        return None
    return args[0] if len(args) == 1 else args


ReadInputs = Callable[[tuple[Any, ...], dict[str, Any]], Inputs | None]


class InputTap:
    """A forward pre-hook that shows what the model is trained on; in copies and pickles of the model it is dead."""

    def __init__(self, see: Callable[[Inputs], None] | None = None, read: ReadInputs = inputs_of) -> None:
        self.see, self.read, self.is_open = see, read, False

    def __call__(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if torch.compiler.is_compiling():  # compiled code runs no Python
            return
        if self.see is None or self.is_open or not model.training or not torch.is_grad_enabled():
            return
        inputs = self.read(args, kwargs)
        if inputs is not None:
            self.is_open = True  # tracing calls the model too
            try:
                self.see(inputs)
            finally:
                self.is_open = False

    def __deepcopy__(self, memo: dict[int, Any]) -> "InputTap":
        return InputTap()

    def __reduce__(self) -> tuple[type["InputTap"], tuple[()]]:
        return InputTap, ()


def mapped(function: Callable[[Tensor], Tensor], inputs: Inputs) -> Inputs:
    """The inputs with each tensor replaced by what the function makes of it."""
    if isinstance(inputs, Tensor):
        return function(inputs)
    if isinstance(inputs, tuple):
        return tuple(map(function, inputs))
    return {name: function(x) if isinstance(x, Tensor) else x for name, x in inputs.items()}


def copied(inputs: Inputs) -> Inputs:
    """The inputs in memory of their own: a loop may write the next batch into theirs."""
    return mapped(lambda x: x.detach().clone(), inputs)


def first_two(inputs: Inputs | None) -> Inputs | None:
    """Copy two examples: all that tracing needs of a batch. All of them if the inputs do not share their rows."""
    if inputs is None:
        return None
    args, kwargs = arguments_of(inputs)
    lengths = {len(x) if x.dim() else 0 for x in (*args, *kwargs.values()) if isinstance(x, Tensor)}
    return copied(mapped(lambda x: x[:2], inputs) if len(lengths) == 1 and 0 not in lengths else inputs)
