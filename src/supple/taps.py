"""Taps: forward hooks that keep what a network is trained on, what its activations give, and their gradients."""

import inspect
import sys
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from supple.inputs import inputs_of
from supple.units import Inputs

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
ReadInputs = Callable[[Args, Kwargs], Inputs | None]


class Tap:
    """A hook that does nothing: what any tap is in copies and pickles of its model."""

    def __call__(self, *call: Any) -> None:
        pass

    def __reduce__(self) -> tuple[type["Tap"], tuple[()]]:
        return Tap, ()


def all_by_name(forward: Callable[..., Any], args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
    """The same call without arguments by position; as it is if the forward has no names for them."""
    parameters = list(inspect.signature(forward).parameters.values())[: len(args)]
    if len(parameters) < len(args) or any(one.kind is not one.POSITIONAL_OR_KEYWORD for one in parameters):
        return args, kwargs
    return (), {one.name: value for one, value in zip(parameters, args, strict=True)} | kwargs


class InputTap(Tap):
    """A forward pre-hook that shows what the model is trained on."""

    def __init__(self, see: Callable[[Inputs], None], read: ReadInputs = inputs_of) -> None:
        self.see, self.read, self.is_open = see, read, False

    def __call__(self, model: nn.Module, args: Args, kwargs: Kwargs) -> None:
        if torch.compiler.is_compiling():  # compiled code runs no Python
            return
        if self.is_open or not model.training or not torch.is_grad_enabled():
            return
        inputs = self.read(args, kwargs)
        if inputs is None and args and kwargs:
            inputs = self.read(*all_by_name(model.forward, args, kwargs))
        if inputs is not None:
            self.is_open = True  # tracing calls the model too
            try:
                self.see(inputs)
            finally:
                self.is_open = False


class FeatureTap(Tap):
    """A forward hook that keeps what an activation gives in training, and the version of that tensor."""

    def __init__(self, site: str, features: dict[str, Tensor], versions: dict[str, int | None]) -> None:
        self.site, self.features, self.versions = site, features, versions

    def __call__(self, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        if not module.training or not torch.is_grad_enabled():
            return
        if torch.compiler.is_compiling():  # no version is known there, and a copy is safe from what comes after
            self.features[self.site], self.versions[self.site] = output.detach().clone(), None
        else:
            self.features[self.site], self.versions[self.site] = output.detach(), output._version


class GradientTap(Tap):
    """A forward hook that keeps the gradient of what an activation gives."""

    def __init__(self, site: str, gradients: dict[str, Tensor]) -> None:
        self.site, self.gradients = site, gradients

    def __call__(self, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        if module.training and output.requires_grad:
            output.register_hook(self.keep)

    def keep(self, gradient: Tensor) -> None:
        self.gradients[self.site] = gradient.detach()


STEP = cast(Any, torch.optim.Optimizer.profile_hook_step(len)).__code__  # what calls the hooks of a step


def is_inside_step(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a hook is called for the step of a parent class, which the optimizer's own step calls."""
    if torch.compiler.is_compiling():
        return False
    frame, num_steps = sys._getframe(1), 0
    while frame is not None and num_steps < 2:
        num_steps += frame.f_code is STEP and frame.f_locals.get("self") is optimizer
        frame = cast(Any, frame.f_back)
    return num_steps == 2
