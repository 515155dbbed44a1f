"""Owners: integer tensors that say, for every element of a value, which unit it belongs to (-1: none of them)."""

from collections.abc import Iterable

import torch
from torch import Tensor

FOREIGN = -1


class Blocked(Exception):
    """The units cannot be followed through an operation; says why."""


def owners_along(dim: int, shape: torch.Size, *, num_units: int) -> Tensor:
    """Owners that follow one dimension: unit j, then again from 0 where the value is wider than there are units."""
    # Expanded, not copied: one row of memory for a batch of feature maps.
    line = torch.arange(shape[dim]) % num_units
    return line.view([-1 if d == dim else 1 for d in range(len(shape))]).expand(shape)


def unit_dim(owner: Tensor) -> int | None:
    """The dimension along which the units lie one by one, in order; None if they lie otherwise."""
    if owner.numel() == 0:
        return None
    usual = usual_dim(owner.shape)
    dims = sorted(range(owner.dim()), key=lambda dim: dim != usual)
    return next((dim for dim in dims if lies_along(owner, dim)), None)


def lies_along(owner: Tensor, dim: int) -> bool:
    """Whether the owner of every element is its index in the dimension, and these are all the units."""
    units = owners_along(dim, owner.shape, num_units=owner.shape[dim])
    return bool((thin(owner) == thin(units)).all())


def usual_dim(shape: torch.Size) -> int:
    """Where units lie if nothing else tells: the last dimension of tokens, the channels of an image, the features."""
    return len(shape) - 1 if len(shape) in (1, 3) else 1


def collapsed(owner: Tensor, dims: Iterable[int]) -> Tensor:
    """The owners with one entry along the dimensions, which are kept; Blocked if elements there have several owners."""
    first = owner
    for dim in dims:
        first = first.narrow(dim, 0, 1)
    if not bool((thin(owner) == thin(first)).all()):
        raise Blocked("it mixes units")
    return first


def is_constant(owner: Tensor, dim: int) -> bool:
    """Whether the owner does not change along the dimension."""
    return bool((thin(owner) == thin(owner.narrow(dim, 0, 1))).all())


def is_foreign(owner: Tensor) -> bool:
    """Whether no element belongs to a unit."""
    return bool((thin(owner) == FOREIGN).all())


def thin(owner: Tensor) -> Tensor:
    """The owners without what expansion repeats, for comparing."""
    for dim, stride in enumerate(owner.stride()):
        if stride == 0:
            owner = owner.narrow(dim, 0, 1)
    return owner
