"""Copies of a network in several processes: a method that decides by the data of one makes them drift apart."""

import warnings

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

DRIFT = (
    "{} changes weights by what it sees of the data, and each process sees another part: the copies of the network "
    "would drift apart. Train it in one process; methods that edit gradients alone (L2, L2Init, SEWC), ShrinkPerturb "
    "and FullReset work in several."
)


def in_several_processes() -> bool:
    """Whether this process is one of several that train together."""
    is_started = torch.distributed.is_available() and torch.distributed.is_initialized()
    return is_started and torch.distributed.get_world_size() > 1


def check_copies(model: nn.Module, who: str) -> None:
    """Refuse a network whose copies are kept alike; warn where nobody knows whether others train copies of it."""
    if not in_several_processes():
        return
    if any(isinstance(part, DistributedDataParallel) for part in model.modules()):
        raise ValueError(DRIFT.format(who))
    warnings.warn(f"{DRIFT.format(who)} Where each process trains a network of its own, all is well.", stacklevel=3)
