"""Inputs: the arguments of a forward, and batches of a stage as pairs of them and targets."""

from collections import UserDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset

from supple.units import Inputs, arguments_of

UNSEEN = (
    "no training forward of the model was seen with tensors, all by position or all by name, outside of compiled code"
)


def inputs_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Inputs | None:
    """A forward's arguments as a Learner takes them: a tensor, a tuple of several, or a dict by name; else None."""
    if args and kwargs:
        return None
    if kwargs:
        return dict(kwargs) if any(isinstance(value, Tensor) for value in kwargs.values()) else None
    if not args or not all(isinstance(argument, Tensor) for argument in args):
        return None
    return args[0] if len(args) == 1 else args


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


def num_examples_of(inputs: Inputs) -> int:
    """How many examples a batch holds; a tuple or a dict is several arguments of the same batch."""
    args, kwargs = arguments_of(inputs)
    held = (x for x in (*args, *kwargs.values()) if isinstance(x, Tensor) and x.dim())
    return len(next(held, (None,)))  # numbers alone are one example


def placed(inputs: Inputs, model: nn.Module, device: torch.device) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a forward on the device, in single precision if the model takes theirs under autocast alone."""

    def place(x: Any) -> Any:
        x = x.to(device) if hasattr(x, "to") else x
        is_half = isinstance(x, Tensor) and x.dtype in (torch.float16, torch.bfloat16)
        return x.float() if is_half and all(p.dtype != x.dtype for p in model.parameters()) else x

    args, kwargs = arguments_of(inputs)
    return tuple(map(place, args)), {name: place(x) for name, x in kwargs.items()}


def check_batches(data: object, what: str) -> None:
    """Refuse a dataset that gives one example after the other."""
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset):
        raise TypeError(
            f"{what} are batches, and a {type(data).__name__} is a dataset of examples. Pass a loader of it, "
            "torch.utils.data.DataLoader(dataset, batch_size=...); None if each item is a batch."
        )


def pair_of(batch: object) -> tuple[Inputs, Tensor]:
    """The batch as inputs and targets. Several inputs become a tuple: a DataLoader collates them to a list."""
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise TypeError(refusal(described(batch)))
    inputs, targets = batch
    if isinstance(inputs, tuple | list) and inputs and all(isinstance(part, Tensor) for part in inputs):
        return tuple(inputs), targets
    if isinstance(inputs, dict | UserDict) and any(isinstance(part, Tensor) for part in inputs.values()):
        return inputs, targets
    if hasattr(inputs, "to"):  # a tensor, or a container that goes to a device as one does
        return inputs, targets
    raise TypeError(refusal(f"a pair whose inputs are {described(inputs)}"))


def refusal(came: str) -> str:
    return (
        "a method reads the data of a stage in pairs of inputs and targets, (x, y), ((x1, x2), y) or, by the names "
        "that the forward has, ({'x1': x1, 'x2': x2}, y), x as tensors; "
        f"a batch here is {came}. Pass a list of such pairs, or a DataLoader whose collate_fn makes "
        "them; in Lightning say how to: as_batch=lambda batch: (batch['image'], batch['label'])."
    )


def described(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, dict):
        return f"a dict of {', '.join(map(str, value))}"
    size = f" of {len(value)}" if isinstance(value, tuple | list) else ""
    return f"a {type(value).__name__}{size}"
