"""Saved tensors: back into those that took their places, or an error that says what does not fit."""

from collections.abc import Mapping

from torch import Tensor

Named = Mapping[str, Tensor]


def restore_(tensors: Named, saved: Named) -> None:
    """Give the tensors their saved values, or say what does not fit."""
    unlike = [name for name in tensors.keys() | saved.keys() if shape_of(tensors, name) != shape_of(saved, name)]
    if unlike:
        raise ValueError(
            f"the checkpoint is of another network or other settings of the method: '{min(unlike)}' has the shape "
            f"{shape_of(saved, min(unlike))} in it, and {shape_of(tensors, min(unlike))} here."
        )
    for name, tensor in tensors.items():
        tensor.copy_(saved[name])


def shape_of(tensors: Named, name: str) -> tuple[int, ...] | None:
    """The shape of a tensor; None if there is none of that name."""
    return tuple(tensors[name].shape) if name in tensors else None
