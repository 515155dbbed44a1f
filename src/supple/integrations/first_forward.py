"""The first training forward of a model: its inputs are the example that the unit graph is traced with."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from supple.learner import Inputs

Meet = Callable[[tuple[Any, ...], dict[str, Any]], None]
Accepts = Callable[[tuple[Any, ...], dict[str, Any]], bool]


class FirstForward:
    """Calls ``meet`` once, with the arguments of the first training forward that it ``accepts``, before it runs."""

    def __init__(self, model: nn.Module, meet: Meet, *, accepts: Accepts | None = None) -> None:
        self.meet, self.accepts = meet, accepts
        self._handle = model.register_forward_pre_hook(self._enter, with_kwargs=True)

    def close(self) -> None:
        """Take the hook off."""
        self._handle.remove()

    def _enter(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not model.training or not torch.is_grad_enabled():
            return
        if self.accepts is None or self.accepts(args, kwargs):
            self.close()  # first, for tracing calls the model too
            self.meet(args, kwargs)


def positional(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Inputs | None:
    """The arguments as a Learner takes them: a tensor, or a tuple of several; None where they are neither."""
    if kwargs or not args or not all(isinstance(argument, Tensor) for argument in args):
        return None
    return args[0] if len(args) == 1 else args
