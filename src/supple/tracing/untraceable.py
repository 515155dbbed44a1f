"""Why a model has no graph: which module stopped the export, and what its author can do."""

from collections.abc import Iterator, Mapping
from types import TracebackType

import torch
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

VALUE_ERRORS = (GuardOnDataDependentSymNode, DataDependentOutputException, DynamicOutputShapeException)
BRANCHES = (
    "Its forward depends on the values of a tensor, so no one graph tells what it does. Choose between tensors with "
    "torch.where, or move the branch out of the model and trace the part below it."
)
INPUT = (
    "Check first that model.eval()(example_input) runs; if it does, that forward uses something torch.export cannot "
    "follow: move it out of the model, or trace the part below it."
)


class UntraceableModel(RuntimeError):
    """The unit graph of a model cannot be had; says which module stopped it and what to do."""


def untraceable(error: Exception, names: Mapping[nn.Module, str], inputs: tuple[object, ...]) -> UntraceableModel:
    """The error of an export in words."""
    model = next(iter(names))
    module = next((m for m in running_modules(error.__traceback__) if m in names), model)
    place = f"{names[module]} ({type(module).__name__})" if names[module] else "its own forward"
    reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    shapes = ", ".join(described(value) for value in inputs)
    advice = BRANCHES if isinstance(error, VALUE_ERRORS) else INPUT
    return UntraceableModel(
        f"{type(model).__name__} cannot be traced with example_input {shapes}: {place} stopped it, with "
        f"{reason.rstrip('. ')}. {advice}"
    )


def running_modules(traceback: TracebackType | None) -> Iterator[nn.Module]:
    """The modules whose methods were running, the innermost first."""
    found = []
    while traceback is not None:
        owner = traceback.tb_frame.f_locals.get("self")
        if isinstance(owner, nn.Module):
            found.append(owner)
        traceback = traceback.tb_next
    return reversed(found)


def described(value: object) -> str:
    """A tensor's shape and type; the name of anything else's class."""
    if isinstance(value, torch.Tensor):
        return f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    return type(value).__name__
