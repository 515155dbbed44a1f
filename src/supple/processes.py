"""Processes: copies of a network in several of them, which must stay alike, and networks in shards."""

import itertools
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from supple.warn import warn


def process_group_of(model: nn.Module) -> Any:
    """The processes among which DistributedDataParallel keeps copies of the model alike; None if it does not."""
    found = next((part for part in model.modules() if isinstance(part, DistributedDataParallel)), None)
    if found is not None:
        return found.process_group if found.process_group.size() > 1 else None
    started = torch.distributed.is_available() and torch.distributed.is_initialized()
    if started and torch.distributed.get_world_size() > 1 and not is_sharded(model):
        warn(
            "this process trains beside others, and the model is not in DistributedDataParallel, so methods decide and "
            "draw in each process by itself. If copies of the network are to stay alike, pass the wrapped model."
        )
    return None


def is_sharded(model: nn.Module) -> bool:
    """Whether FSDP2 keeps parts of the parameters in other processes."""
    return any(type(parameter.data).__name__ == "DTensor" for parameter in model.parameters())


def check_shards(parts: Iterable[Any], methods: Iterable[Any]) -> None:
    """Refuse sharded networks to methods that look at more than single entries; the parts are models and optimizers."""
    models = [part for part in parts if isinstance(part, nn.Module)]
    held = itertools.chain(parts, *(model.modules() for model in models))
    foreign = next((type(part).__name__ for part in held if is_foreign_shard(part)), "")
    sharded = any(map(is_sharded, models))
    for method in methods:
        if foreign or (sharded and method.acts_in() and not method.is_elementwise):
            raise ValueError(
                f"{type(method).__name__} does not work with {foreign or 'parameters that FSDP2 shards'}: no process "
                "holds whole layers. Use DistributedDataParallel, or with FSDP2 L2, L2Init or WeightClipping."
            )


def is_foreign_shard(part: object) -> bool:
    """Whether the part belongs to DeepSpeed, as accelerate's wrappers of it do, or to FSDP's first form."""
    return "deepspeed" in type(part).__module__ or type(part).__name__ == "FullyShardedDataParallel"
