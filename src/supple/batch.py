"""Batch: inputs and targets, as loops and data loaders give them; what is neither is refused in words."""

from typing import Any

from torch import Tensor

Inputs = Tensor | tuple[Tensor, ...]  # a tuple is several arguments of the forward
Batch = tuple[Inputs, Tensor]


def pair_of(batch: object) -> Batch:
    """The batch as inputs and targets. Several inputs become a tuple: a DataLoader collates them to a list."""
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise TypeError(refusal(described(batch)))
    inputs, targets = batch
    if isinstance(inputs, tuple | list) and inputs and all(isinstance(part, Tensor) for part in inputs):
        return tuple(inputs), targets
    if hasattr(inputs, "to"):  # a tensor, or a container that goes to a device as one does
        return inputs, targets
    raise TypeError(refusal(f"a pair whose inputs are {described(inputs)}"))


def refusal(came: str) -> str:
    """What was wanted, what came, what to do."""
    return (
        "a method reads the data of a stage in pairs of inputs and targets, (x, y) or ((x1, x2), y), x as tensors; "
        f"a batch here is {came}. Pass a list of such pairs, or a DataLoader whose collate_fn makes them."
    )


def described(value: Any) -> str:
    """What came, in words."""
    if value is None:
        return "None"
    if isinstance(value, dict):
        return f"a dict of {', '.join(map(str, value))}"
    size = f" of {len(value)}" if isinstance(value, tuple | list) else ""
    return f"a {type(value).__name__}{size}"
